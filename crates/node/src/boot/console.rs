//! What the machine's console says to the host, word for word.

use std::io::Write;

/// The Node is registered.
pub(crate) fn ready() {
    say("socialweb-node: ready");
}

/// The agent cannot go on. One line, whatever the reason holds.
pub(crate) fn fatal(why: &str) {
    say(&format!("socialweb-node: fatal: {}", one_line(why)));
}

/// Line breaks and other controls as spaces, so that a message stays one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The boot firmware may have left the cursor in the middle of a line.
    let _ = writeln!(out, "\n{line}");
    let _ = out.flush();
}
