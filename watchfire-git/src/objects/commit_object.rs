//! Reads the content of a commit as strictly as `git fsck` does.

use git2::Oid;

use crate::objects::id::hex;

/// Returns the tree and the parents of a commit, or `None` if git would not write it so.
pub(crate) fn read(content: &[u8]) -> Option<(Oid, Vec<Oid>)> {
    let end = content.windows(2).position(|pair| pair == b"\n\n").unwrap_or(content.len());
    let header = content.get(..end)?;
    if header.contains(&0) {
        return None;
    }
    // A commit may end with its header. `peekable`: the number of parents is only known after the last one.
    let mut lines = header.strip_suffix(b"\n").unwrap_or(header).split(|byte| *byte == b'\n').peekable();
    let tree = hex(lines.next()?.strip_prefix(b"tree ")?)?;
    let mut parents = Vec::new();
    while let Some(parent) = lines.peek().and_then(|line| line.strip_prefix(b"parent ")) {
        parents.push(hex(parent)?);
        lines.next();
    }
    for who in [&b"author "[..], b"committer "] {
        let line = lines.next()?.strip_prefix(who)?;
        is_person(line).then_some(())?;
    }
    // Other lines may follow (an encoding, a signature), but none of these a second time.
    let known = [&b"tree "[..], b"parent ", b"author ", b"committer "];
    let again = lines.any(|line| known.iter().any(|name| line.starts_with(name)));
    (!again).then_some((tree, parents))
}

/// Returns true for a line such as `Name <mail> 1234567890 +0100`.
pub(crate) fn is_person(line: &[u8]) -> bool {
    let parts = || {
        let open = line.iter().position(|byte| *byte == b'<')?;
        let rest = line.get(open + 1..)?;
        let close = rest.iter().position(|byte| matches!(byte, b'<' | b'>'))?;
        let (name, mail) = (line.get(..open)?, rest.get(..close)?);
        let when = rest.get(close..)?.strip_prefix(b"> ")?;
        let space = when.iter().position(|byte| *byte == b' ')?;
        Some((name, mail, when.get(..space)?, when.get(space + 1..)?))
    };
    let Some((name, _, seconds, zone)) = parts() else { return false };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let sign = zone.first().is_some_and(|byte| matches!(byte, b'+' | b'-'));
    (name.is_empty() || name.ends_with(b" "))
        && !name.contains(&b'>')
        && digits(seconds)
        && (seconds == b"0" || !seconds.starts_with(b"0"))
        // 18 digits always fit into 64 bits with a sign.
        && seconds.len() < 19
        && sign
        && zone.len() == 5
        && zone.get(1..).is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_only_as_git_writes_them() {
        let id = "1".repeat(40);
        let who = "A B <a@b> 1700000000 +0100";
        let good =
            format!("tree {id}\nparent {id}\nauthor {who}\ncommitter {who}\ngpgsig x\n y\n\nmessage\n");
        assert_eq!(read(good.as_bytes()).unwrap().1.len(), 1);
        let bare = format!("tree {id}\nauthor <a@b> 0 +0000\ncommitter {who}\n");
        assert!(read(bare.as_bytes()).is_some());
        for (from, to) in [
            ("author A B", "author A<B"),
            ("author A B", "author A>B"),
            ("author A B <", "author A B<"),
            ("1700000000", "01700000000"),
            ("1700000000", "x"),
            ("+0100", "0100"),
            ("+0100", "+01000"),
            ("gpgsig x", "author x"),
            ("gpgsig x", "gpgsig \0x"),
            ("author A", "committer A"),
            ("tree 1", "tree x"),
            (&id, &"0".repeat(40)),
        ] {
            let odd = good.replacen(from, to, 1);
            assert!(read(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}
