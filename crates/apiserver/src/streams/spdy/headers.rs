//! Header blocks of SPDY/3.1: name-value pairs, compressed with a preset dictionary and one window
//! for the whole connection and direction (draft-mbelshe-httpbis-spdy-00 section 2.6.10).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// Largest block, bytes after decompression; a port-forward's are a few dozen.
const MAX_BLOCK: usize = 16 * 1024;
/// Room made at a time for what is decompressed, bytes.
const STEP: usize = 1024;

/// Words of the dictionary that are preceded by their length.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding \
    content-language content-length content-location content-md5 content-range content-type date etag expect \
    expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified \
    location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te \
    trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK \
    version HTTP/1.1 url public set-cookie keep-alive origin";

/// The rest of the dictionary.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

pub(super) fn dictionary() -> Vec<u8> {
    let mut dictionary = BytesMut::new();
    for word in WORDS.split_whitespace() {
        let word = word.replace('_', " ");
        dictionary.put_u32(u32::try_from(word.len()).expect("words are short"));
        dictionary.put_slice(word.as_bytes());
    }
    dictionary.put_slice(TEXT.as_bytes());
    dictionary.to_vec()
}

/// A header block that breaks the format.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a SPDY header block is malformed")]
pub(super) struct Malformed;

/// Reads the blocks of one direction, in their order.
pub(super) struct Reader(Decompress);

impl Reader {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// The pairs of the next block.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let (mut plain, mut rest) = (Vec::new(), block);
        loop {
            if plain.len() == plain.capacity() {
                plain.reserve(STEP);
            }
            let (taken_before, made_before) = (self.0.total_in(), plain.len());
            let went_on = match self.0.decompress_vec(rest, &mut plain, FlushDecompress::Sync) {
                Ok(_) => self.0.total_in() > taken_before || plain.len() > made_before,
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| Malformed)?;
                    true
                }
                Err(_) => return Err(Malformed),
            };
            let taken = usize::try_from(self.0.total_in() - taken_before).map_err(|_| Malformed)?;
            rest = rest.get(taken..).ok_or(Malformed)?;
            if plain.len() > MAX_BLOCK {
                return Err(Malformed);
            }
            // Room that is left means that there is nothing more to come of what was taken.
            if !plain.is_empty() && rest.is_empty() && plain.len() < plain.capacity() {
                return pairs(&plain);
            }
            if !went_on {
                return Err(Malformed);
            }
        }
    }
}

fn pairs(mut plain: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    fn text(plain: &mut &[u8]) -> Result<String, Malformed> {
        let length = plain.try_get_u32().map_err(|_| Malformed)? as usize;
        let (text, rest) = plain.split_at_checked(length).ok_or(Malformed)?;
        *plain = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Malformed)
    }
    let count = plain.try_get_u32().map_err(|_| Malformed)?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((text(&mut plain)?, text(&mut plain)?));
    }
    Ok(pairs)
}

/// Writes the blocks of one direction, in their order.
pub(super) struct Writer(Compress);

impl Writer {
    pub(super) fn new() -> Self {
        let mut compress = Compress::new(Compression::default(), true);
        compress.set_dictionary(&dictionary()).expect("a new stream takes a dictionary");
        Self(compress)
    }

    /// The next block.
    pub(super) fn write(&mut self, pairs: &[(&str, &str)]) -> Bytes {
        let mut plain = BytesMut::new();
        let length = |text: &str| u32::try_from(text.len()).expect("header values are short");
        plain.put_u32(u32::try_from(pairs.len()).expect("few headers"));
        for (name, value) in pairs {
            plain.put_u32(length(name));
            plain.put_slice(name.as_bytes());
            plain.put_u32(length(value));
            plain.put_slice(value.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() + 128);
        self.0
            .compress_vec(&plain, &mut block, FlushCompress::Sync)
            .expect("compression into a buffer that is large enough does not fail");
        block.into()
    }
}
