//! Reads the content of an annotated tag as strictly as `git fsck` does.

use git2::Oid;

use crate::objects::commit_object::is_person;
use crate::objects::id::hex;

/// Returns the commit that a tag names, if the tag is what git writes and names a commit.
pub(crate) fn read(content: &[u8]) -> Option<Oid> {
    let end = content.windows(2).position(|pair| pair == b"\n\n")?;
    let header = content.get(..end)?;
    if header.contains(&0) {
        return None;
    }
    let mut lines = header.split(|byte| *byte == b'\n');
    let object = hex(lines.next()?.strip_prefix(b"object ")?)?;
    (lines.next()? == b"type commit").then_some(())?;
    let name = str::from_utf8(lines.next()?.strip_prefix(b"tag ")?).ok()?;
    let who = lines.next()?.strip_prefix(b"tagger ")?;
    let is_sound = git2::Reference::is_valid_name(&format!("refs/tags/{name}")) && is_person(who);
    (is_sound && lines.next().is_none()).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_only_as_git_writes_them() {
        let id = "1".repeat(40);
        let good = format!("object {id}\ntype commit\ntag v1\ntagger A <a@b> 1700000000 +0100\n\nfirst\n");
        assert_eq!(read(good.as_bytes()).unwrap().to_string(), id);
        for (from, to) in
            [("commit", "blob"), ("tag v1", "tag v 1"), ("tagger A", "author A"), ("+0100\n", "+0100\nx y\n")]
        {
            assert!(read(good.replacen(from, to, 1).as_bytes()).is_none(), "{to}");
        }
    }
}
