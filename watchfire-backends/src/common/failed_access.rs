//! Finds lines in which a program reports that the system refused it a file.
//!
//! Strict on purpose: a line counts only if all of it has the shape in which a program writes such an error. The same
//! words in a sentence, in quotes, in source code or in a diff do not count.

use watchfire_core::backend::FailedAccess;

/// Errors in the words of the C library, which all runtimes repeat.
const FAILURES: [(&str, Failure); 5] = [
    ("permission denied", Failure::Refused),
    ("operation not permitted", Failure::Refused),
    ("read-only file system", Failure::ReadOnly),
    // A folder that the sandbox hides looks like this.
    ("no such file or directory", Failure::Absent),
    // A file that the sandbox hides looks like this. Other causes are rare, except for sockets.
    ("no such device or address", Failure::Absent),
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Failure {
    /// The sandbox refused it, or the modes of the files did.
    Refused,
    ReadOnly,
    Absent,
}

/// Beginnings of words that mean a change. Several are stems, such as `writ` for write and writing.
const CHANGES: &[&str] = &[
    "append",
    "changing",
    "chmod",
    "chown",
    "copyfile",
    "creat",
    "delet",
    "link",
    "lock",
    "mak",
    "mkdir",
    "mkdtemp",
    "mov",
    "overwrit",
    "preserv",
    "remov",
    "renam",
    "rmdir",
    "set",
    "symlink",
    "temporary",
    "touch",
    "truncat",
    "unlink",
    "updat",
    "utime",
    "writ",
];

/// Names of system calls, which some programs print before a path in place of their own name.
const CALLS: &[&str] =
    &["chdir", "lstat", "mkdir", "open", "readdirent", "remove", "rename", "stat", "symlink", "unlinkat"];

/// Longest line that is examined, in bytes.
const LONGEST: usize = 4096;
/// Largest number of lines between an error and its cause.
const BETWEEN: usize = 3;

/// Returns the failed accesses in the output of a program.
pub(crate) fn all(text: &str) -> Vec<FailedAccess> {
    let mut found = Vec::new();
    // The last line that names a path and an action, but no cause: the cause may follow on a line of its own.
    let mut effect: Option<(usize, &str, Named<'_>)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.len() > LONGEST {
            continue;
        }
        let said = without_number(line);
        // ASCII only, so that byte positions are the same in both texts.
        let lower = said.to_ascii_lowercase();
        let failure =
            FAILURES.iter().find_map(|(words, failure)| Some((lower.find(words)?, words.len(), *failure)));
        match (failure, &effect) {
            (Some((at, length, failure)), Some((since, what, named)))
                // A line that holds nothing but the cause, close below its effect.
                if said.trim_start().len() == length && number <= since + BETWEEN =>
            {
                let line = format!("{}: {}", what.trim_start(), line.get(at..).unwrap_or_default());
                found.extend(named.failed(&line, failure));
            }
            (Some((at, length, failure)), _) => {
                let (before, after) =
                    (said.get(..at).unwrap_or_default(), said.get(at + length..).unwrap_or_default());
                let named =
                    if after.is_empty() { program(without_errno(before)) } else { runtime(before, after) };
                found.extend(named.iter().flat_map(|named| named.failed(line, failure)));
            }
            (None, _) => effect = effect_on(line).map(|named| (number, line, named)).or(effect),
        }
    }
    found
}

/// The paths that a line names, and whether its words mean a change.
#[derive(Clone, Debug)]
struct Named<'a> {
    paths: Vec<&'a str>,
    change: bool,
}

impl<'a> Named<'a> {
    /// Returns `None` if `words` hold more than words, or a path is not one.
    fn new(paths: Vec<&'a str>, words: &[&str]) -> Option<Self> {
        let sound =
            !paths.is_empty() && paths.iter().all(|path| is_path(path)) && words.iter().all(|it| plain(it));
        let lower = words.join(" ").to_ascii_lowercase();
        let mut words = lower.split(' ');
        let change = words.any(|word| CHANGES.iter().any(|change| word.starts_with(change)));
        sound.then_some(Self { paths, change })
    }

    fn failed(&self, line: &str, failure: Failure) -> impl Iterator<Item = FailedAccess> {
        // A read-only file system refuses nothing else.
        let change = self.change || failure == Failure::ReadOnly;
        let absent = failure == Failure::Absent;
        self.paths.iter().map(move |path| FailedAccess {
            line: line.to_owned(),
            path: (*path).to_owned(),
            change,
            absent,
        })
    }
}

/// Removes the error number that Rust's runtime adds behind the words.
fn without_number(line: &str) -> &str {
    match line.strip_suffix(')').and_then(|line| line.rsplit_once(" (os error ")) {
        Some((before, number)) if is_number(number) => before,
        _ => line,
    }
}

/// Removes the error number that Python's runtime puts before the words.
fn without_errno(before: &str) -> &str {
    match before.strip_suffix("] ").and_then(|before| before.rsplit_once("[Errno ")) {
        Some((before, number)) if is_number(number) => before,
        _ => before,
    }
}

/// Parses a line such as `error: failed to open` with a path in quotes. The tools of Rust print the cause on a line
/// of its own.
fn effect_on(line: &str) -> Option<Named<'_>> {
    let quote = line.chars().next_back().filter(|c| matches!(c, '`' | '\''))?;
    let (words, path) = line.trim_start().strip_suffix(quote)?.split_once(quote)?;
    let words: Vec<&str> = words.split(": ").collect();
    Named::new(vec![path], &words)
        .filter(|_| words.first().is_some_and(|word| is_name(word.split(' ').next().unwrap_or(word))))
}

/// Parses the part before the words, such as `cat: /a: ` or `rm: cannot remove '/a': `, of programs in C, shells, git
/// and go.
fn program(before: &str) -> Option<Named<'_>> {
    let parts: Vec<&str> = before.strip_suffix(": ")?.split(": ").collect();
    let (last, first) = parts.split_last()?;
    let Some((name, between)) = first.split_first() else {
        // No program's name: a system call and its path, as go programs print.
        let (call, path) = last.split_once(' ')?;
        return Named::new(vec![path], &[call]).filter(|_| CALLS.contains(&call) && path.starts_with('/'));
    };
    // Between the name and the last part: a line number, the action, and the path if the last part is words.
    let (above, words) = between.split_last().map_or((between, ""), |(last, above)| (above, *last));
    let about = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || " '’_-/.".contains(c));
    if !is_name(name) || !above.iter().all(|part| about(part)) {
        return None;
    }
    if words.starts_with('/') {
        Named::new(vec![words], &[last])
    } else {
        paths(last).filter(|_| about(words))
    }
}

/// Parses a part that has words and paths, which are in quotes or at its end.
fn paths(part: &str) -> Option<Named<'_>> {
    for (open, close) in [('\'', '\''), ('‘', '’'), ('"', '"'), ('`', '`')] {
        // The apostrophe in `can't` opens no quote.
        let begins =
            |at: &usize| part.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(' '));
        let Some(at) = part.match_indices(open).map(|(at, _)| at).find(begins) else { continue };
        let (mut paths, mut words, mut rest) = (Vec::new(), vec![part.get(..at)?], part.get(at..)?);
        while let Some((between, (path, more))) =
            rest.split_once(open).and_then(|(between, rest)| Some((between, rest.split_once(close)?)))
        {
            words.push(between);
            paths.push(path);
            rest = more;
        }
        words.push(rest);
        return Named::new(paths, &words);
    }
    let (words, path) = match part.find(" /") {
        _ if part.starts_with(['/', '.']) => ("", part),
        Some(at) => (part.get(..at)?, part.get(at + 1..)?),
        None => match part.rsplit_once(' ') {
            Some((words, path)) if path.contains(['.', '/']) => (words, path),
            Some(_) => return None,
            None => ("", part),
        },
    };
    Named::new(vec![path], &[words])
}

/// Parses the forms in which the path comes last: Python's `PermissionError: [Errno 13] … : '/a'`, rustc's
/// `error: … (os error 13) at path "/a"`, node's `Error: EACCES: …, open '/a'`, zsh's `zsh:1: …: /a`.
fn runtime<'a>(before: &'a str, after: &'a str) -> Option<Named<'a>> {
    let quoted = |text: &'a str| Some(text.strip_prefix('\'')?.strip_suffix('\'')?.split("' -> '").collect());
    let is_class = |class: &str| {
        let mut parts = class.strip_prefix("npm error ").unwrap_or(class).split(": ");
        parts.next().is_some_and(is_name) && parts.all(plain)
    };
    if let Some((class, number)) = before.strip_suffix("] ").and_then(|it| it.rsplit_once(": [Errno ")) {
        let paths = quoted(after.strip_prefix(": ")?)?;
        return Named::new(paths, &[]).filter(|_| is_class(class) && is_number(number));
    }
    let before = before.strip_suffix(": ")?;
    if let Some((number, path)) =
        after.strip_prefix(" (os error ").and_then(|it| it.split_once(") at path \""))
    {
        let path = path.strip_suffix('"')?;
        return Named::new(vec![path], &[before.rsplit(": ").next()?])
            .filter(|_| is_class(before) && is_number(number));
    }
    if let Some(call) = after.strip_prefix(", ") {
        let (class, code) = before.rsplit_once(": ").unwrap_or(("Error", before));
        let is_code = code.starts_with('E') && code.bytes().all(|byte| byte.is_ascii_uppercase());
        let (call, paths) = call.trim_end_matches([']', '{', ' ']).split_once(' ')?;
        return Named::new(quoted(paths)?, &[call])
            .filter(|_| is_code && is_class(class.trim_start_matches('[')));
    }
    // Only zsh: any other program could print a sentence in this form.
    Named::new(vec![after.strip_prefix(": ")?], &[]).filter(|_| before.split(':').next() == Some("zsh"))
}

/// Returns true if the text can be the name of a program, or its path.
fn is_name(text: &str) -> bool {
    let start = text.trim_start_matches("../").trim_start_matches("./");
    let start = start.strip_prefix('/').unwrap_or(start);
    start.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if the text consists of words alone.
fn plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || " '’_-".contains(c))
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['-', ' ', '(']) && !text.contains(['\'', '"', '`', '\t'])
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn told(text: &str) -> Vec<String> {
        let word = |failed: &FailedAccess| {
            let access = if failed.change { "write" } else { "read" };
            let how = if failed.absent { "Absent" } else { "Refused" };
            format!("{access} {how} {}", failed.path)
        };
        all(text).iter().map(word).collect()
    }

    /// Output of programs in a sandbox, in blocks: the expected complaint, then the output.
    #[test]
    fn programs_are_understood() {
        let mut wrong = Vec::new();
        let blocks: Vec<&str> = include_str!("failed_access/real.txt").split("\n\n>").collect();
        assert!(blocks.len() > 60);
        for block in blocks {
            let (expected, printed) = block.trim_start_matches('>').split_once('\n').unwrap();
            let expected: Vec<&str> =
                expected.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
            let printed = printed.strip_suffix('\n').unwrap_or(printed);
            for printed in
                [printed.to_owned(), format!("Exit code 1\n{printed}\n"), printed.replace('\n', "\r\n")]
            {
                if told(&printed) != expected {
                    wrong.push(format!("{printed}\n  {:?}, not {expected:?}", told(&printed)));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Lines that are no complaints; real complaints are none either where they are quoted, indented or part of a line.
    #[test]
    fn talk_is_no_complaint() {
        let mut talk: Vec<String> =
            include_str!("failed_access/talk.txt").lines().map(str::to_owned).collect();
        for line in include_str!("failed_access/real.txt")
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/'))
        {
            for (before, after) in [
                ("\"", "\""),
                ("+", ""),
                ("-", ""),
                ("- ", ""),
                ("  ", ""),
                ("// ", ""),
                ("# ", ""),
                ("> ", ""),
                ("src/a.rs:12:", ""),
                ("12:\t", ""),
                ("12→", ""),
                ("", "\","),
                ("", " (see below)"),
                ("`", "`"),
                ("assert!(x.contains(\"", "\"));"),
                ("{\"text\":\"", "\"}"),
                ("I saw ", ""),
                ("2026-11-22T12:00:00Z ", ""),
                ("\x1b[31m", "\x1b[0m"),
            ] {
                talk.push(format!("{before}{line}{after}"));
            }
        }
        let wrong: Vec<_> =
            talk.iter().map(|line| (line, told(line))).filter(|(_, told)| !told.is_empty()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn our_own_source_is_no_complaint() {
        let mut files = Vec::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                    folders.push(path);
                } else if name.ends_with(".rs") || name.ends_with(".md") {
                    files.push(path);
                }
            }
        }
        assert!(files.len() > 50);
        let said = |path: &PathBuf| told(&std::fs::read_to_string(path).unwrap());
        let wrong: Vec<_> =
            files.iter().map(|path| (path, said(path))).filter(|(_, told)| !told.is_empty()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn whatever_is_printed_ends() {
        let real = include_str!("failed_access/real.txt");
        for cut in (0..real.len()).filter(|at| real.is_char_boundary(*at)) {
            all(real[cut..].lines().next().unwrap_or_default());
        }
        all(&": '".repeat(2000));
        assert_eq!(told(&format!("cat: /{}: Permission denied", "x".repeat(LONGEST))), [""; 0]);
    }
}
