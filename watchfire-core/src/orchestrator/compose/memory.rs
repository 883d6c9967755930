//! `memory.md`: what agents leave for later agents, merged rather than overwritten.

/// What `memory.md` should hold when a session began with `base`, left `agent`, and the file now holds `current`.
/// None when nothing is to be written.
///
/// If nobody else wrote meanwhile, the agent's text holds. Otherwise the current text stays, and the lines that the
/// agent added (those that were not in `base`) go to its end; what the agent removed stays.
pub(crate) fn merge(base: &str, agent: &str, current: &str) -> Option<String> {
    if agent == base || agent == current {
        return None;
    }
    if current == base {
        return Some(agent.to_owned());
    }
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
