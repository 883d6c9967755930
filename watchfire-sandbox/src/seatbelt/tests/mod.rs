mod evaluate;

use std::path::{Path, PathBuf};

use watchfire_core::sandbox::{Access, NamePattern, Network, PolicyInputs, Rule, RuleAccess, SandboxPolicy};

use self::evaluate::{allows, parse};
use super::profile::profile;
use crate::base_policy::{Platform, base_policy_for};

const OPERATIONS: [(Access, &str); 2] =
    [(Access::Read, "file-read-data"), (Access::Write, "file-write-data")];

/// Devices are writable whatever the policy says.
fn base() -> SandboxPolicy {
    let mut inputs = PolicyInputs::new();
    inputs.home = Some("/Users/u".into());
    inputs.watchfire_home = Some("/Users/u/.watchfire".into());
    inputs.project_root = Some("/Users/u/Documents/p".into());
    let builder = base_policy_for(Platform::MacOs, &inputs).unwrap();
    builder
        .write("/Users/u/Documents/p/.watchfire/worktrees/0001", "workspace")
        .read("/Users/u/Documents/p/.watchfire/worktrees/0001/.git", "pointer")
        .network(Network::OpenExceptPorts(vec![7777]))
        .build()
        .unwrap()
}

#[test]
fn the_base_policy_reads_as_it_is_meant() {
    let text = profile(&base(), "tag").unwrap();
    // Anything before it, and the system refuses the profile.
    assert!(text.starts_with("(version 1)\n"), "{text}");
    let profile = parse(&text);
    let work = "/Users/u/Documents/p/.watchfire/worktrees/0001";
    for (path, read, write) in [
        ("/usr/bin/git", true, false),
        ("/Users/u/.ssh/id", false, false),
        ("/Users/u/Library/Keychains/login", false, false),
        ("/Users/u/Documents/taxes", false, false),
        ("/Users/u/Documents/p/src/a.rs", true, false),
        ("/Users/u/Documents/p/deep/.env.local", false, false),
        ("/Users/u/Documents/p/.env.example", true, false),
        (&format!("{work}/a.rs"), true, true),
        (&format!("{work}/.env"), false, false),
        (&format!("{work}/.git"), true, false),
        ("/Users/u/Library/Caches/x", true, true),
        ("/dev/null", true, true),
    ] {
        assert_eq!(allows(&profile, "file-read-data", path), read, "read {path}");
        assert_eq!(allows(&profile, "file-write-data", path), write, "write {path}");
    }
    // Nothing on the way to the pointer can be moved; the worktree itself lies in a folder that is not written.
    assert!(!allows(&profile, "file-write-unlink", &format!("{work}/.git")));
    assert!(allows(&profile, "file-write-unlink", &format!("{work}/a.rs")));
}

#[test]
fn odd_names_do_not_break_out() {
    let odd = "/w/a \"b\" (allow file-write* (subpath \"/\")) \\ [x] {y} $^ \u{e9}\nz";
    let policy = SandboxPolicy::builder()
        .write("/w", "workspace")
        .deny(odd, "odd")
        .pattern(NamePattern {
            root: "/w/a+b".into(),
            names: vec![".env*".into(), "a\"b".into()],
            except: vec![],
            origin: "names".into(),
        })
        .build()
        .unwrap();
    let text = profile(&policy, "a \"tag\"").unwrap();
    let profile = parse(&text);
    assert!(!allows(&profile, "file-read-data", odd) && !allows(&profile, "file-write-data", "/etc/x"));
    assert!(
        allows(&profile, "file-write-data", "/w/x") && allows(&profile, "file-write-data", "/w/aab/.env")
    );
    assert!(
        !allows(&profile, "file-write-data", "/w/a+b/.env")
            && !allows(&profile, "file-read-data", "/w/a+b/a\"b")
    );
}

#[test]
fn a_path_that_is_no_text_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;
    let path = Path::new(std::ffi::OsStr::from_bytes(b"/w/\xff"));
    let policy = SandboxPolicy::builder().deny(path, "odd").build().unwrap();
    assert_eq!(profile(&policy, "tag").unwrap_err().code(), "invalid_input");
}

/// A folder that is moved takes what is in it along: the ones above a denied place must not move.
#[test]
fn folders_above_denied_places_are_pinned() {
    let policy =
        SandboxPolicy::builder().write("/w", "workspace").deny("/w/a/b/secret", "secret").build().unwrap();
    let profile = parse(&profile(&policy, "tag").unwrap());
    for (path, moves) in
        [("/w/a", false), ("/w/a/b", false), ("/w/a/b/secret", false), ("/w/c", true), ("/w/a/x", true)]
    {
        assert_eq!(allows(&profile, "file-write-unlink", path), moves, "{path}");
    }
}

/// Thousands of policies and paths: what is denied is denied, and what is allowed is allowed.
#[test]
fn generated_policies_mean_what_decide_says() {
    let mut seed = 1_u64;
    let mut roll = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % sides
    };
    let parts = ["a", "b c", ".env", ".ENV", ".Env.x", ".env.example", "d\"q", "]", "\u{e9}", "x\ny"];
    for round in 0..400 {
        let path = |roll: &mut dyn FnMut(usize) -> usize| {
            let depth = 1 + roll(4);
            (0..depth).fold(PathBuf::from("/r"), |path, _| path.join(parts[roll(parts.len())]))
        };
        let mut builder = SandboxPolicy::builder().pattern(NamePattern {
            root: if roll(3) == 0 { path(&mut roll) } else { "/r".into() },
            names: vec![".env".into(), ".env.*".into()],
            except: vec!["*.example".into()],
            origin: "names".into(),
        });
        for _ in 0..roll(7) {
            let access = [RuleAccess::Deny, RuleAccess::Read, RuleAccess::Write][roll(3)];
            builder = builder.rule(Rule::new(path(&mut roll), access, "generated"));
        }
        let policy = builder.build().unwrap();
        let text = profile(&policy, "tag").unwrap();
        let parsed = parse(&text);
        for _ in 0..40 {
            let path = path(&mut roll);
            for (access, operation) in OPERATIONS {
                let (meant, is) =
                    (policy.allows(&path, access), allows(&parsed, operation, path.to_str().unwrap()));
                // A folder with the name of a public twin is not spared.
                let twin = path.ancestors().skip(1).any(|ancestor| ancestor.ends_with(".env.example"));
                assert!(is == meant || (meant && twin), "round {round}: {operation} {path:?}: {is}\n{text}");
            }
        }
    }
}
