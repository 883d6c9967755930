//! Images: recognised, bounded and kept as they are.
//!
//! What a viewer passes on acts on the viewer's machine. Only sequences that carry their image themselves are kept: those
//! that name a file or shared memory (kitty's `t=f`), or that save one (iTerm2's `File` without `inline`), are dropped.

use std::sync::Arc;

use crate::event::Event;
use crate::image::{Image, ImageProtocol};
use crate::parser::Params;
use crate::state::images::kitty_value;
use crate::state::{Dcs, State};

impl State {
    /// Begins a sixel image, whose parameters are its aspect ratio and background.
    pub(crate) fn sixel_begin(&self, params: &Params) -> Dcs {
        if self.options.image_bytes == 0 {
            return Dcs::None;
        }
        let values: Vec<_> = params.values().iter().map(u16::to_string).collect();
        Dcs::Sixel(format!("\x1bP{}q", values.join(";")).into_bytes())
    }

    pub(crate) fn sixel_end(&mut self, mut sequence: Vec<u8>) {
        sequence.extend_from_slice(b"\x1b\\");
        self.place_image(ImageProtocol::Sixel, sequence);
    }

    /// Carries out an application program command. Only kitty's are known.
    pub(crate) fn application_command(&mut self, data: &[u8]) {
        let Some(command) = data.strip_prefix(b"G").filter(|_| self.options.image_bytes > 0) else { return };
        // Later parts of an image have the key `m` and no action.
        // A part that nothing was begun for is a first one, and then has its own action.
        let first = self.images.parts.is_empty() && !self.images.refused;
        if first {
            match kitty_value(command, b'a') {
                None | Some(b"t" | b"T" | b"p") => {}
                Some(b"d") => return self.delete_kitty(command),
                // Queries, which have no answer here, and animations.
                _ => return,
            }
            self.images.refused = !matches!(kitty_value(command, b't'), None | Some(b"d"));
        }
        let more = kitty_value(command, b'm') == Some(b"1");
        self.add_part(&[b"\x1b_", data, b"\x1b\\"]);
        if !more {
            self.end_parts(ImageProtocol::Kitty);
        }
    }

    /// The identifier names an image, and everything else what can be seen of all.
    fn delete_kitty(&mut self, command: &[u8]) {
        match (kitty_value(command, b'd'), kitty_value(command, b'i')) {
            (Some(b"i" | b"I"), Some(id)) => self.images.forget_kitty(id),
            (None | Some(b"a" | b"A"), _) => {
                let (alternate, top) = (self.alternate, self.history.numbers().end);
                self.images.retain(|image| {
                    image.protocol != ImageProtocol::Kitty || image.alternate != alternate || image.line < top
                });
            }
            // By place or depth, which only who has decoded the images can tell.
            _ => {}
        }
    }

    /// OSC 1337: takes images of iTerm2, at once or in parts.
    pub(crate) fn iterm_file(&mut self, data: &[u8]) {
        if self.options.image_bytes == 0 {
            return;
        }
        let shown = |arguments: &[u8]| {
            let end = arguments.iter().position(|byte| *byte == b':').unwrap_or(arguments.len());
            let arguments = arguments.get(..end).unwrap_or(&[]);
            arguments.split(|byte| *byte == b';').any(|argument| argument == b"inline=1")
        };
        let sequence: [&[u8]; 3] = [b"\x1b]1337;", data, b"\x1b\\"];
        if let Some(arguments) = data.strip_prefix(b"File=") {
            if shown(arguments) {
                self.place_image(ImageProtocol::Iterm2, sequence.concat());
            }
        } else if let Some(arguments) = data.strip_prefix(b"MultipartFile=") {
            (self.images.parts, self.images.refused) = (Vec::new(), !shown(arguments));
            self.add_part(&sequence);
        } else if !self.images.parts.is_empty() || self.images.refused {
            self.add_part(&sequence);
            if data == b"FileEnd" {
                self.end_parts(ImageProtocol::Iterm2);
            }
        }
    }

    /// Adds a sequence to the image in parts, or gives the image up if it becomes too large.
    fn add_part(&mut self, sequence: &[&[u8]]) {
        let bytes: usize = sequence.iter().map(|bytes| bytes.len()).sum();
        // Given up at once, and not kept until the end that may never come.
        if self.images.refused || self.images.parts.len() + bytes > self.options.image_bytes {
            (self.images.parts, self.images.refused) = (Vec::new(), true);
            return;
        }
        sequence.iter().for_each(|bytes| self.images.parts.extend_from_slice(bytes));
    }

    fn end_parts(&mut self, protocol: ImageProtocol) {
        let parts = std::mem::take(&mut self.images.parts);
        if !std::mem::take(&mut self.images.refused) {
            self.place_image(protocol, parts);
        }
    }

    fn place_image(&mut self, protocol: ImageProtocol, sequence: Vec<u8>) {
        let kept = self.history.numbers();
        let image = Image {
            id: 0,
            protocol,
            line: kept.end + self.row as u64,
            col: self.col as u16,
            alternate: self.alternate,
            sequence: Arc::from(sequence),
        };
        // Lines that the scrollback has dropped take their images with them.
        // Before the new one is counted, so that those which nobody can see make room first.
        self.images.retain(|image| image.alternate || image.line >= kept.start);
        if let Some(id) = self.images.keep(image, self.options.image_bytes) {
            self.tell(Event::Image(id));
        }
    }

    /// Drops the images in rows of the screen that are erased.
    pub(crate) fn forget_images(&mut self, rows: std::ops::Range<usize>) {
        let (alternate, top) = (self.alternate, self.history.numbers().end);
        let lines = top + rows.start as u64..top + rows.end as u64;
        self.images.retain(|image| image.alternate != alternate || !lines.contains(&image.line));
    }
}
