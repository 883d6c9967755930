//! Finds the line of a key in a YAML file of a person, for messages.

/// Returns the number of the line with the key at `path`, such as `merge.batch`. Returns `None` for a key within braces.
pub(super) fn of_key(text: &str, path: &str) -> Option<usize> {
    let (mut from, mut section, mut found) = (0, None, None);
    for name in path.split('.') {
        // The first key of a section tells how deep its keys stand. What stands deeper is a value, or a block of text.
        let mut depth = None;
        found = None;
        for (number, line) in text.lines().enumerate().skip(from) {
            let key = line.trim_start();
            if key.is_empty() || key.starts_with('#') || key.starts_with("---") {
                continue;
            }
            let indent = line.len() - key.len();
            if section.is_some_and(|section| indent <= section) {
                break;
            }
            if indent == *depth.get_or_insert(indent) && is_named(key, name) {
                found = Some(number + 1);
                (from, section) = (number + 1, Some(indent));
                break;
            }
        }
        found?;
    }
    found
}

fn is_named(key: &str, name: &str) -> bool {
    let quotes = ['"', '\''];
    let rest = key.trim_start_matches(quotes).strip_prefix(name);
    rest.is_some_and(|rest| rest.trim_start_matches(quotes).trim_start().starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_at_its_depth() {
        let text = "---\n# verfy: a remark\nname: shop\ndefinition: |\n  verfy: words\nmerge:\n    # batch\n    'batch': 2\n\
                    other: {batch: 1}\nverfy : []\n";
        for (path, line) in [
            ("name", Some(3)),
            ("merge.batch", Some(8)),
            ("verfy", Some(10)),
            ("other.batch", None),
            ("merge.verfy", None),
            ("nam", None),
        ] {
            assert_eq!(of_key(text, path), line, "{path}");
        }
    }
}
