//! `memory.md`: the notes of agents for later agents, merged rather than overwritten.

/// Returns the new content of `memory.md` for a session that began with `base` and ended with `agent`, when the file
/// now holds `current`. `None` if nothing needs to be written.
///
/// If `current` is still `base`, the agent's text replaces it. Otherwise the current text stays, and the lines that
/// the agent added to `base` are appended. Lines that the agent removed stay.
pub(crate) fn merge(base: &str, agent: &str, current: &str) -> Option<String> {
    if agent == base || agent == current {
        return None;
    }
    if current == base {
        return Some(agent.to_owned());
    }
    // Lines that another session added as well are not repeated.
    let known: std::collections::HashSet<&str> = base.lines().chain(current.lines()).collect();
    let added: Vec<&str> =
        agent.lines().filter(|line| !line.trim().is_empty() && !known.contains(line)).collect();
    if added.is_empty() {
        return None;
    }
    let mut merged = current.trim_end_matches('\n').to_owned();
    for line in added {
        if !merged.is_empty() {
            merged.push('\n');
        }
        merged.push_str(line);
    }
    merged.push('\n');
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn nobody_loses_a_line() {
        assert_eq!(merge("a\n", "a\n", "b\n"), None);
        assert_eq!(merge("a\n", "a\nb\n", "a\n").as_deref(), Some("a\nb\n"));
        assert_eq!(merge("a\n", "a\nmine\n", "a\nyours\n").as_deref(), Some("a\nyours\nmine\n"));
        assert_eq!(merge("", "mine", "").as_deref(), Some("mine"));
        assert_eq!(merge("a\n", "", "a\nb\n"), None, "what someone else wrote is not removed");
    }
}
