//! Tokens of the query form of label selectors.

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A key, a value or a word operator.
    Identifier(&'a str),
    Open,
    Close,
    Comma,
    /// `!` before a key.
    DoesNotExist,
    /// `=` or `==`.
    Equals,
    NotEquals,
    GreaterThan,
    LessThan,
    /// Special characters that are no operator.
    Error(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// How errors quote it.
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Identifier(text) | Self::Error(text) => text,
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::DoesNotExist => "!",
            Self::Equals => "=",
            Self::NotEquals => "!=",
            Self::GreaterThan => ">",
            Self::LessThan => "<",
            Self::End => "",
        }
    }
}

/// Splits a selector into tokens.
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.scan().0
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.scan();
        self.rest = rest;
        token
    }

    fn scan(&self) -> (Token<'a>, &'a str) {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = text.chars().next() else { return (Token::End, text) };
        if !is_special(first) {
            let end = text.find(|c| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(text.len());
            return (Token::Identifier(&text[..end]), &text[end..]);
        }
        // The longest operator wins.
        for (symbol, token) in [
            ("!=", Token::NotEquals),
            ("==", Token::Equals),
            ("=", Token::Equals),
            ("!", Token::DoesNotExist),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
            (">", Token::GreaterThan),
            ("<", Token::LessThan),
        ] {
            if let Some(rest) = text.strip_prefix(symbol) {
                return (token, rest);
            }
        }
        (Token::Error(text), "")
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}
