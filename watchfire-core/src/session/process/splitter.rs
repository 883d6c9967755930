//! Lines from bytes that arrive in pieces.

/// Upper bound for a line. A longer one is dropped whole.
const LONGEST: usize = 4 << 20;

/// Buffer of the line that is not complete yet.
#[derive(Debug, Default)]
pub(in crate::session) struct Splitter {
    partial: Vec<u8>,
    /// True while the rest of an overlong line is dropped.
    skipping: bool,
}

impl Splitter {
    /// Returns the lines that are complete now, without their ends. Invalid UTF-8 is replaced.
    pub(in crate::session) fn push(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.extend(line);
            bytes = rest.get(1..).unwrap_or_default();
            let line = std::mem::take(&mut self.partial);
            // The end of an overlong line ends the skipping, but gives no line: half a message must not be
            // parsed.
            if !std::mem::take(&mut self.skipping) {
                lines.push(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned());
            }
        }
        self.extend(bytes);
        lines
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping || self.partial.len() + bytes.len() > LONGEST {
            self.skipping = true;
            // Frees the buffer. An agent that writes no line ends would otherwise hold 4 MiB for each
            // session.
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut() {
        let text = "one\r\n\ngrüße 🔥\nhalf".as_bytes();
        for size in 1..text.len() {
            let mut splitter = Splitter::default();
            let lines: Vec<String> = text.chunks(size).flat_map(|chunk| splitter.push(chunk)).collect();
            assert_eq!(lines, ["one", "", "grüße 🔥"], "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_costs_nothing() {
        let mut splitter = Splitter::default();
        for _ in 0..10 {
            assert!(splitter.push(&vec![b'x'; 1 << 20]).is_empty());
            assert!(splitter.partial.len() <= LONGEST);
        }
        assert_eq!(splitter.push(b"x\nnext\n"), ["next"]);
    }
}
