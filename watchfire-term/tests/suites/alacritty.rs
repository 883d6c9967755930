//! alacritty: recordings and the grid that they must end in, with colours and attributes.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use watchfire_term::{Attributes, Cell, Color, Emulator, Options, Size, Style, Terminal, Underline};

/// Where alacritty and xterm disagree, xterm wins.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("decaln_reset", "DECALN homes the cursor"),
    ("deccolm_reset", "DECCOLM does nothing unless mode 40 allows it"),
    ("erase_in_line", "EL after the last column erases it and ends the pending wrap"),
    ("saved_cursor_alt", "1049 clears the screen that it shows, which ends a pending wrap"),
    ("selective_erasure", "DECSEL and DECSED erase what DECSCA does not protect"),
    ("underline", "SGR 21 is a double underline"),
];

pub(crate) fn trials(folder: &Path) -> Vec<Trial> {
    let cases = super::entries(folder).into_iter().filter(|path| path.join("alacritty.recording").is_file());
    cases
        .map(|path| {
            let name = super::name_of(&path);
            let reason = super::known(CONTRADICTIONS, &name);
            Trial::test(format!("alacritty {name}{}", super::note(reason)), move || check(&path))
                .with_ignored_flag(reason.is_some())
        })
        .collect()
}

fn check(folder: &Path) -> Result<(), Failed> {
    let grid: Value = serde_json::from_slice(&std::fs::read(folder.join("grid.json"))?)?;
    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
    let (cols, rows) = (number(&grid["columns"]), number(&grid["lines"]));
    let config: Value =
        serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap_or(b"{}".to_vec()))?;
    let options = Options::default().with_scrollback(number(&config["history_size"]), 64 << 20);
    let mut terminal = Emulator::with_options(Size::new(cols as u16, rows as u16), options);
    terminal.feed(&std::fs::read(folder.join("alacritty.recording"))?);
    let snapshot = terminal.snapshot();

    let inner = grid["raw"]["inner"].as_array().ok_or("no rows")?;
    let zero = number(&grid["raw"]["zero"]);
    let mut differences = Vec::new();
    for (row, line) in snapshot.lines.iter().enumerate() {
        // The bottom row comes first.
        let index = (zero + rows - 1 - row) % inner.len();
        let cells = inner[index]["inner"].as_array().ok_or("no cells")?;
        let mut col = 0;
        for cell in line.cells() {
            let want = cells.get(col).ok_or("too long a row")?;
            compare(&mut differences, row, col, want, Some(cell));
            col += usize::from(cell.width);
        }
        for (col, want) in cells.iter().enumerate().skip(col) {
            compare(&mut differences, row, col, want, None);
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let count = differences.len();
    differences.truncate(12);
    Err(format!("{count} cells differ:\n{}", differences.join("\n")).into())
}

fn compare(differences: &mut Vec<String>, row: usize, col: usize, want: &Value, have: Option<Cell<'_>>) {
    let flags: Vec<&str> = want["flags"].as_str().unwrap_or("").split(" | ").collect();
    let has = |flag: &str| flags.contains(&flag);
    if has("WIDE_CHAR_SPACER") || has("LEADING_WIDE_CHAR_SPACER") {
        return;
    }
    let mut text: String = want["c"].as_str().unwrap_or(" ").replace('\t', " ");
    for mark in want["extra"]["zerowidth"].as_array().into_iter().flatten() {
        text.push_str(mark.as_str().unwrap_or(""));
    }
    let attributes = [
        ("BOLD", Attributes::BOLD),
        ("BOLD_ITALIC", Attributes::BOLD.with(Attributes::ITALIC, true)),
        ("DIM_BOLD", Attributes::BOLD.with(Attributes::DIM, true)),
        ("DIM", Attributes::DIM),
        ("ITALIC", Attributes::ITALIC),
        ("INVERSE", Attributes::INVERSE),
        ("HIDDEN", Attributes::CONCEAL),
        ("STRIKEOUT", Attributes::STRIKE),
    ];
    let set = attributes.iter().filter(|(flag, _)| has(flag));
    let style = Style {
        foreground: color(&want["fg"]),
        background: color(&want["bg"]),
        underline_color: want["extra"].get("underline_color").map_or(Color::Default, color),
        attributes: set.fold(Attributes::default(), |all, (_, one)| all.with(*one, true)),
        underline: match () {
            () if has("UNDERLINE") => Underline::Single,
            () if has("DOUBLE_UNDERLINE") => Underline::Double,
            () if has("UNDERCURL") => Underline::Curly,
            () if has("DOTTED_UNDERLINE") => Underline::Dotted,
            () if has("DASHED_UNDERLINE") => Underline::Dashed,
            () => Underline::None,
        },
    };
    let (have_text, mut have_style) = have.map_or((" ", Style::default()), |cell| (cell.text, cell.style));
    // alacritty does not know these.
    have_style.attributes =
        have_style.attributes.with(Attributes::BLINK, false).with(Attributes::OVERLINE, false);
    if have_text != text || have_style != style {
        differences.push(format!("{row},{col}: want {text:?} {style:?}, have {have_text:?} {have_style:?}"));
    }
}

fn color(value: &Value) -> Color {
    const NAMES: [&str; 8] = ["Black", "Red", "Green", "Yellow", "Blue", "Magenta", "Cyan", "White"];
    if let Some(name) = value["Named"].as_str() {
        let bright = name.strip_prefix("Bright");
        let index = NAMES.iter().position(|known| *known == bright.unwrap_or(name));
        return index.map_or(Color::Default, |index| {
            Color::Indexed(index as u8 + if bright.is_some() { 8 } else { 0 })
        });
    }
    if let Some(index) = value["Indexed"].as_u64() {
        return Color::Indexed(index as u8);
    }
    let part = |name: &str| value["Spec"][name].as_u64().map(|part| part as u8);
    match (part("r"), part("g"), part("b")) {
        (Some(r), Some(g), Some(b)) => Color::Rgb(r, g, b),
        _ => Color::Default,
    }
}
