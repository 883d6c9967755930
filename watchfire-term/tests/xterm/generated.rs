//! Sequences by chance: motions, margins, edits and modes, which meet in ways that nobody writes down.

use super::picture::{COLS, ROWS};

/// How many are compared.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first = number("XTERM_SEED").unwrap_or(1);
    let long = std::env::var_os("WATCHFIRE_LONG").is_some();
    first..first + number("XTERM_COUNT").unwrap_or(if long { 5000 } else { 300 })
}

/// Steps to take, by chance.
pub(crate) fn input(seed: u64) -> Vec<Vec<u8>> {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // xterm inserts by runs as they are read, which shows at margins in the middle of one: either, or.
    let inserts = seed.is_multiple_of(4);
    let steps = (0..10 + chance.below(30))
        .map(|_| step(&mut chance).replace("?69h", if inserts { "4h" } else { "?69h" }));
    steps.map(String::into_bytes).collect()
}

/// As few of the steps as still fail.
pub(crate) fn shorter(mut steps: Vec<Vec<u8>>, mut fails: impl FnMut(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            if fails(&fewer) {
                steps = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    steps
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

fn step(chance: &mut Chance) -> String {
    let (cols, rows) = (u64::from(COLS), u64::from(ROWS));
    let (row, col) = (1 + chance.below(rows), 1 + chance.below(cols));
    let few = chance.below(6);
    match chance.below(26) {
        0..4 => {
            let len = 1 + if chance.below(5) == 0 { chance.below(90) } else { chance.below(12) };
            let first = chance.below(26) as u8;
            (0..len).map(|at| char::from(b'a' + (first + at as u8) % 26)).collect()
        }
        4..7 => format!("\x1b[{row};{col}H"),
        7 => {
            let (a, b) = (1 + chance.below(cols), 1 + chance.below(cols));
            format!("\x1b[?69h\x1b[{};{}s", a.min(b), a.max(b))
        }
        8 => {
            let (a, b) = (1 + chance.below(rows), 1 + chance.below(rows));
            format!("\x1b[{};{}r", a.min(b), a.max(b))
        }
        9..14 => format!(
            "\x1b[{few}{}",
            chance.of(&["A", "B", "C", "D", "E", "F", "G", "d", "a", "e", "`", "I", "Z"])
        ),
        14..17 => {
            let last = chance.of(&["@", "P", "L", "M", "S", "T", "X", "'}", "'~", " @", " A", "b"]);
            // Nothing scrolls by zero lines in xterm, which takes that for something else.
            format!("\x1b[{}{last}", if last == "T" { few.max(1) } else { few })
        }
        17 => chance
            .of(&[
                "\n", "\r", "\x08", "\t", "\x0b", "\x1bD", "\x1bM", "\x1bE", "\x1bH", "\x1b6", "\x1b9",
                "\x1b7", "\x1b8",
            ])
            .to_owned(),
        18 => format!("\x1b[{}{}", chance.below(3), chance.of(&["J", "K", "g"])),
        19 => format!("\x1b[?{}{}", chance.below(3), chance.of(&["J", "K"])),
        20 => {
            let mode = chance.of(&[
                "?6", "?7", "?45", "?69", "20", "?5", "?41", "?47", "?1047", "?1048", "?1049", "?1046", "?25",
            ]);
            format!("\x1b[{mode}{}", chance.of(&["h", "l"]))
        }
        21 => format!("\x1b[{}{}", chance.of(&["0", "1", "4", "5", "7", "22", "24", "25", "27"]), "m"),
        22 => chance
            .of(&[
                "\x1b[0\"q",
                "\x1b[2\"q",
                "\x1b[2*x",
                "\x1b[1*x",
                "\x1b(0",
                "\x1b(B",
                "\x1b)0",
                "\x0e",
                "\x0f",
            ])
            .to_owned(),
        23 => {
            let mode = chance.of(&["?6", "?7", "?45", "?5", "?47", "?1049", "?25"]);
            let change = chance.of(&["h", "l"]);
            let restore = if chance.below(2) == 0 { format!("x\x1b[{mode}r") } else { String::new() };
            format!("\x1b[{mode}s\x1b[{mode}{change}{restore}")
        }
        // DECSTR in xterm saves a pending wrap at the corner of the screen: none pends.
        24 => chance.of(&["é", "─│", "\x1b#8", "\r\x1b[!p"]).to_owned(),
        _ => {
            let (bottom, right) = (row + chance.below(4), col + chance.below(9));
            let area = format!("{row};{col};{bottom};{right}");
            let (to_row, to_col) = (1 + chance.below(rows), 1 + chance.below(cols));
            match chance.below(6) {
                0 => format!("\x1b[{area};1;{to_row};{to_col};1$v"),
                1 => format!("\x1b[37;{area}$x"),
                2 => format!("\x1b[m\x1b[{area}$z"),
                3 => format!("\x1b[m\x1b[{area}${{"),
                4 => format!("\x1b[{area};{}$r", chance.of(&["0", "1", "4", "7", "1;7"])),
                _ => format!("\x1b[{area};{}$t", chance.of(&["0", "1", "4", "7", "1;7"])),
            }
        }
    }
}
