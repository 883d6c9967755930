//! Personal folders under their local names: `~/.config/user-dirs.dirs`.

use std::path::{Path, PathBuf};

/// The folders that the person's desktop calls documents, music and so on. Empty where there is no such file.
pub(super) fn of(home: &Path) -> Vec<PathBuf> {
    std::fs::read_to_string(home.join(".config/user-dirs.dirs")).map_or(Vec::new(), |text| parse(&text, home))
}

/// Lines such as `XDG_MUSIC_DIR="$HOME/Musik"`. The home folder itself means "none".
fn parse(text: &str, home: &Path) -> Vec<PathBuf> {
    let line = |line: &str| {
        let (name, value) = line.trim().split_once('=')?;
        let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        if !name.starts_with("XDG_") || !name.ends_with("_DIR") || name == "XDG_TEMPLATES_DIR" {
            return None;
        }
        let below = value.strip_prefix("$HOME/")?.trim_matches('/');
        let plain = !below.is_empty() && !below.split('/').any(|part| matches!(part, "" | "." | ".."));
        plain.then(|| home.join(below))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_are_read_and_the_home_folder_is_not() {
        let text = "# comment\nXDG_DESKTOP_DIR=\"$HOME/\"\nXDG_DOCUMENTS_DIR=\"$HOME/Dokumente\"\n\
                    XDG_MUSIC_DIR=\"$HOME/../m\"\nXDG_VIDEOS_DIR=\"/srv/videos\"\nbroken";
        assert_eq!(parse(text, Path::new("/home/u")), [Path::new("/home/u/Dokumente")]);
    }
}
