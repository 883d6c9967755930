//! How the child wants keys to be told: kitty's protocol and xterm's.

use crate::parser::Params;
use crate::state::State;

/// Upper bound for kitty's stack. The oldest level is dropped.
const DEPTH: usize = 32;

/// The keyboard modes that were asked for, for each screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyboard {
    /// Kitty's flags, the stack of the main and the alternate screen.
    stacks: [Vec<u8>; 2],
    /// xterm's modifyOtherKeys.
    pub(crate) other_keys: u8,
    /// xterm's other resources for keys, as set, by number.
    pub(crate) resources: [Option<u16>; 8],
}

impl Keyboard {
    /// Returns kitty's flags in force.
    pub(crate) fn flags(&self, alternate: bool) -> u8 {
        self.stack(alternate).last().copied().unwrap_or(0)
    }

    /// Writes the sequences that set the same state; the alternate screen must be in use if it is.
    pub(crate) fn describe(&self, alternate: bool, out: &mut String) {
        use std::fmt::Write as _;
        for flags in self.stack(alternate) {
            let _ = write!(out, "\x1b[>{flags}u");
        }
        for (number, value) in self.resources.iter().enumerate() {
            if let Some(value) = value {
                let _ = write!(out, "\x1b[>{number};{value}m");
            }
        }
    }

    fn stack(&self, alternate: bool) -> &Vec<u8> {
        let [main, other] = &self.stacks;
        if alternate { other } else { main }
    }

    fn stack_mut(&mut self, alternate: bool) -> &mut Vec<u8> {
        let [main, other] = &mut self.stacks;
        if alternate { other } else { main }
    }
}

impl State {
    /// `CSI u` with a marker: reports or changes kitty's flags.
    pub(crate) fn kitty_keyboard(&mut self, mark: u8, params: &Params) {
        // Each screen has a stack of its own (kitty), so that a program which dies on the alternate screen leaves the
        // shell its keys.
        let alternate = self.alternate;
        let flags = (params.value(0) & 31) as u8;
        match mark {
            b'?' => {
                let flags = self.keyboard.flags(alternate);
                self.reply_csi(&format!("?{flags}u"));
            }
            b'>' => {
                let stack = self.keyboard.stack_mut(alternate);
                if stack.len() >= DEPTH {
                    // Kitty's specification: a full stack drops its oldest entry.
                    stack.remove(0);
                }
                stack.push(flags);
            }
            b'<' => {
                let count = usize::from(params.value_or(0, 1));
                let stack = self.keyboard.stack_mut(alternate);
                stack.truncate(stack.len().saturating_sub(count));
            }
            b'=' => {
                let now = self.keyboard.flags(alternate);
                let new = match params.value_or(1, 1) {
                    // 1 sets exactly these flags, 2 adds them, 3 takes them away.
                    1 => flags,
                    2 => now | flags,
                    3 => now & !flags,
                    _ => return,
                };
                let stack = self.keyboard.stack_mut(alternate);
                match stack.last_mut() {
                    Some(top) => *top = new,
                    None => stack.push(new),
                }
            }
            _ => {}
        }
    }

    /// XTMODKEYS: sets or resets a resource for keys (`CSI > Pp ; Pv m`).
    pub(crate) fn modify_keys(&mut self, params: &Params) {
        let which = usize::from(params.value(0));
        let value = (params.len() > 1).then(|| params.value(1));
        if which == 4 {
            self.keyboard.other_keys = value.unwrap_or(0).min(3) as u8;
        }
        if let Some(resource) = self.keyboard.resources.get_mut(which) {
            *resource = value;
        }
    }

    /// XTQMODKEYS: reports a resource for keys.
    pub(crate) fn query_keys(&mut self, which: u16) {
        let value = match which {
            4 => u16::from(self.keyboard.other_keys),
            0 => self.keyboard.resources.first().copied().flatten().unwrap_or(0),
            _ => self.keyboard.resources.get(usize::from(which)).copied().flatten().unwrap_or(2),
        };
        if which < 8 {
            self.reply_csi(&format!(">{which};{value}m"));
        }
    }
}
