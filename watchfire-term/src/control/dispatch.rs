//! From events of the parser to what they mean.

use crate::control::sgr;
use crate::parser::{Handler, Params, Sequence};
use crate::state::modes::Mode;
use crate::state::{Protect, State};

impl Handler for State {
    #[inline(always)]
    fn ascii(&mut self, run: &[u8]) {
        self.print_ascii(run);
    }

    fn chars(&mut self, run: &[char]) {
        self.print_chars(run);
    }

    #[inline(always)]
    fn control(&mut self, byte: u8) {
        self.last = None;
        match byte {
            b'\n' | 0x0b | 0x0c => self.line_feed(),
            b'\r' => self.carriage_return(),
            0x08 => self.back(1),
            b'\t' => self.tab(1),
            0x07 => self.tell(crate::Event::Bell),
            0x0e => self.shift(1),
            0x0f => self.shift(0),
            // SUB shows that something is missing.
            // C1 controls, from here on, arrive in their 7-bit form as well; see `esc`.
            0x84 => self.index(),
            0x85 => {
                self.index();
                self.carriage_return();
            }
            0x88 => self.tabs.set(self.col, true),
            0x8d => self.reverse_index(),
            0x8e => self.single_shift(2),
            0x8f => self.single_shift(3),
            0x96 => self.guard(Protect::Iso, true),
            0x97 => self.guard(Protect::Iso, false),
            // DECID, older than DA1, has the same answer.
            0x9a => self.device_attributes(0, &Params::default()),
            _ => {}
        }
    }

    #[inline(always)]
    fn line_end(&mut self) {
        self.last = None;
        self.carriage_return();
        // In new line mode it returns, too, and is there already.
        self.index();
    }

    #[inline(always)]
    fn csi(&mut self, params: &Params, sequence: Sequence) {
        // Only what comes directly before is repeated.
        if sequence.last != b'b' {
            self.last = None;
        }
        match sequence.marks {
            // Most sequences by far.
            [0, 0] if sequence.last == b'm' => self.set_look(params),
            // Only looks have numbers of numbers.
            _ if !params.is_flat() && sequence.last != b'm' => {}
            [0, 0] => self.control_sequence(params, sequence.last),
            marks => self.marked_sequence(params, marks, sequence.last),
        }
    }

    fn esc(&mut self, sequence: Sequence) {
        let Sequence { marks, last, .. } = sequence;
        self.last = None;
        match (marks, last) {
            ([0, 0], b'7') => self.save_cursor(),
            ([0, 0], b'8') => self.restore_cursor(),
            // DECBI and DECFI came with the VT420.
            ([0, 0], b'6') if self.level >= 4 => self.back_index(),
            ([0, 0], b'9') if self.level >= 4 => self.forward_index(),
            ([0, 0], b'=') => self.modes.set(Mode::AppKeypad, true),
            ([0, 0], b'>') => self.modes.set(Mode::AppKeypad, false),
            ([0, 0], b'c') => self.reset(),
            ([0, 0], b'n') => self.shift(2),
            ([0, 0], b'o') => self.shift(3),
            ([0, 0], b'~') => self.charsets.right = Some(1),
            ([0, 0], b'}') => self.charsets.right = Some(2),
            ([0, 0], b'|') => self.charsets.right = Some(3),
            // ECMA-48: ESC and a letter are the 7-bit form of the control 0x40 above that letter.
            ([0, 0], b'@'..=b'_') => self.control(last + 0x40),
            ([b' ', 0], b'F' | b'G') if self.level == 1 => {}
            ([b' ', 0], b'F') => self.eight_bit_replies = false,
            // Answers of eight bits are no UTF-8; only who reads bytes as such gets them.
            ([b' ', 0], b'G') => self.eight_bit_replies = self.options.c1_controls,
            ([b'#', 0], b'3') => self.set_line_size(2),
            ([b'#', 0], b'4') => self.set_line_size(3),
            ([b'#', 0], b'5') => self.set_line_size(0),
            ([b'#', 0], b'6') => self.set_line_size(1),
            ([b'#', 0], b'8') => self.alignment_pattern(),
            ([b'%', 0], b'@') => self.charsets.bytes = true,
            ([b'%', 0], b'G') => self.charsets.bytes = false,
            ([mark @ b'('..=b'/', second], _) => self.designate(mark, second, last),
            _ => {}
        }
        self.update_special();
    }

    fn vt52_identify(&mut self) {
        self.identify_as_vt52();
    }

    fn osc(&mut self, data: &[u8], bell: bool) {
        self.last = None;
        self.osc_command(data, bell);
    }

    fn apc(&mut self, data: &[u8]) {
        self.last = None;
        self.application_command(data);
    }

    fn dcs_start(&mut self, params: &Params, sequence: Sequence) {
        self.last = None;
        self.dcs_begin(params, sequence.marks, sequence.last);
    }

    fn dcs_data(&mut self, data: &[u8]) {
        self.dcs_more(data);
    }

    fn dcs_end(&mut self, terminated: bool) {
        self.dcs_finish(terminated);
    }
}

impl State {
    fn set_look(&mut self, params: &Params) {
        sgr::apply(params, &mut self.look);
        self.apply_look();
    }

    fn control_sequence(&mut self, params: &Params, last: u8) {
        let count = || usize::from(params.value_or(0, 1));
        match last {
            b'H' | b'f' => {
                self.go_to(count() - 1, usize::from(params.value_or(1, 1)) - 1);
            }
            b'A' => self.up(count()),
            // CUD stops at the margin, VPR does not.
            b'B' | b'e' => {
                if last == b'B' {
                    self.down(count());
                } else {
                    self.go_to(self.own_row() + count(), self.own_col());
                }
            }
            b'C' => self.forward(count()),
            b'D' => self.back(count()),
            b'E' => {
                self.down(count());
                self.carriage_return();
            }
            b'F' => {
                self.up(count());
                self.carriage_return();
            }
            b'G' | b'`' => self.go_to(self.own_row(), count() - 1),
            b'a' => self.go_to(self.own_row(), self.own_col() + count()),
            b'd' => self.go_to(count() - 1, self.own_col()),
            b'I' => self.tab(count()),
            b'Z' => self.back_tab(count()),
            b'J' => self.erase_display(params.value(0), false),
            b'K' => self.erase_line(params.value(0), false),
            b'X' => self.erase_characters(count()),
            b'@' => self.insert_characters(count()),
            b'P' => self.delete_characters(count()),
            b'L' => self.insert_lines(count()),
            b'M' => self.delete_lines(count()),
            b'S' => self.scroll_up(count()),
            // With five parameters this is for mouse highlighting, which we do not have.
            b'T' if params.len() < 5 => self.scroll_down(count()),
            // ECMA-48's first print of the fifth edition has this letter for SD by mistake. xterm knows both.
            b'^' => self.scroll_down(count()),
            b'b' => self.repeat(count()),
            b'c' => self.device_attributes(0, params),
            b'g' => self.clear_tabs(params.value(0)),
            b'h' => self.set_ansi_modes(params, true),
            b'l' => self.set_ansi_modes(params, false),
            b'n' => self.status(false, params),
            b'r' => {
                let (top, bottom) = (params.value_or(0, 1), params.value(1));
                let bottom = if bottom == 0 { self.rows() } else { usize::from(bottom) };
                self.set_rows(usize::from(top) - 1, bottom);
            }
            b's' if self.on(Mode::LeftRightMargins) => {
                let (left, right) = (params.value_or(0, 1), params.value(1));
                let right = if right == 0 { self.cols() } else { usize::from(right) };
                self.set_columns(usize::from(left) - 1, right);
            }
            // SCOSC, from the consoles of PCs, where DECLRMM does not give the letter to DECSLRM.
            b's' => self.save_cursor(),
            b'u' => self.restore_cursor(),
            b't' => self.window(params),
            b'x' => self.terminal_parameters(params.value(0)),
            _ => {}
        }
    }

    fn marked_sequence(&mut self, params: &Params, marks: [u8; 2], last: u8) {
        let count = || usize::from(params.value_or(0, 1));
        match (&marks, last) {
            (b"?\0", b'h') => self.set_dec_modes(params, true),
            (b"?\0", b'l') => self.set_dec_modes(params, false),
            (b"?\0", b'J') => self.erase_display(params.value(0), true),
            (b"?\0", b'K') => self.erase_line(params.value(0), true),
            (b"?\0", b'n') => self.status(true, params),
            (b"?\0", b's') => self.keep_modes(params),
            (b"?\0", b'r') => self.restore_modes(params),
            (b"?\0", b'S') => self.graphics_attributes(params.value(0)),
            (b"?\0", b'm') => self.query_keys(params.value(0)),
            (b"?\0", b'W') if params.value(0) == 5 => self.tabs.reset(),
            (b"?$", b'p') => self.mode_report(true, params.value(0)),
            (b"$\0", b'p') if self.level >= 3 => self.mode_report(false, params.value(0)),
            ([b'?' | b'>' | b'<' | b'=', 0], b'u') => self.kitty_keyboard(marks[0], params),
            ([b'>' | b'=', 0], b'c') => self.device_attributes(marks[0], params),
            (b">\0", b'm') => self.modify_keys(params),
            (b">\0", b'n') if params.value(0) == 4 => self.keyboard.other_keys = 0,
            (b">\0", b'q') if params.value(0) == 0 => self.version(),
            (b">\0", b't') => self.set_title_modes(params, true),
            (b">\0", b'T') => self.set_title_modes(params, false),
            (b" \0", b'q') => self.set_cursor_style(params.value(0)),
            (b" \0", b'@') => self.scroll_left(count()),
            (b" \0", b'A') => self.scroll_right(count()),
            (b"!\0", b'p') => self.soft_reset(),
            (b"\"\0", b'p') => self.set_level(params),
            (b"\"\0", b'q') => self.guard(Protect::Dec, params.value(0) == 1),
            (b"#\0", b'{' | b'p') => self.push_look(params),
            (b"#\0", b'}' | b'q') => self.pop_look(),
            (b"#\0", b'|') => self.report_look(params),
            (b"#\0", b'P') => self.push_colors(params),
            (b"#\0", b'Q') => self.pop_colors(params),
            (b"#\0", b'R') => self.report_colors(),
            (b"#\0", b'y') => self.checksum_flags = params.value(0),
            (b"$\0", b'|') => self.set_page_columns(params.value(0)),
            (b"*\0", b'|') => self.set_page_rows(params.value(0)),
            (b"$\0", b'w') if self.level >= 3 => self.presentation(params.value(0)),
            (b"$\0", b'u') if self.level >= 3 => self.state_report(params.value(0)),
            _ if self.level >= 4 => self.columns_and_areas(params, marks, last),
            _ => {}
        }
    }

    /// Carries out the sequences of a VT420 for columns and areas.
    fn columns_and_areas(&mut self, params: &Params, marks: [u8; 2], last: u8) {
        let count = || usize::from(params.value_or(0, 1));
        match (&marks, last) {
            (b"'\0", b'}') => self.insert_columns(count()),
            (b"'\0", b'~') => self.delete_columns(count()),
            (b"$\0", b'v') => self.copy_area(params),
            (b"$\0", b'x') => self.fill_area(params),
            (b"$\0", b'z') => self.erase_area(params),
            (b"$\0", b'{') => self.erase_area_selectively(params),
            (b"$\0", b'r') => self.change_area(params, false),
            (b"$\0", b't') => self.change_area(params, true),
            (b"*\0", b'x') => self.change_extent = params.value(0),
            (b"*\0", b'y') => self.checksum(params),
            _ => {}
        }
    }
}
