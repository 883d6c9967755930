use std::ffi::OsStr;

use watchfire_core::sandbox::Access;

use super::*;

const PLATFORMS: [Platform; 3] = [Platform::Linux { root: false }, Platform::MacOs, Platform::Other];

fn inputs(project: &str) -> PolicyInputs {
    let mut inputs = PolicyInputs::new();
    inputs.home = Some("/home/u".into());
    inputs.watchfire_home = Some("/home/u/.watchfire".into());
    inputs.project_root = Some(project.into());
    inputs
}

/// Returns true if the command writes there, and what it writes stays with it where the platform can do that.
fn writes_apart(platform: Platform, policy: &SandboxPolicy, path: &str) -> bool {
    let replaced = policy.replaced.iter().any(|folder| Path::new(path).starts_with(folder));
    match platform {
        Platform::Linux { .. } => replaced && !policy.allows(path, Access::Write),
        Platform::MacOs | Platform::Other => policy.allows(path, Access::Write),
    }
}

fn policy(platform: Platform, inputs: &PolicyInputs) -> SandboxPolicy {
    base_policy_for(platform, inputs).unwrap().build().unwrap()
}

#[test]
fn everything_that_the_specification_blocks_is_blocked_everywhere() {
    for platform in PLATFORMS {
        let policy = policy(platform, &inputs("/home/u/p"));
        for path in [
            ".ssh/id",
            ".aws/credentials",
            ".gnupg/x",
            ".netrc",
            ".npmrc",
            "Desktop/x",
            "Documents/x",
            "Downloads/x",
            "Music/x",
            "Movies/x",
            "Pictures/x",
            ".watchfire/daemon.yaml",
            "p/.env",
            "p/a/b/.env.production",
            "p/.watchfire/secrets/instructions.md",
            ".claude/.credentials.json",
        ] {
            let path = Path::new("/home/u").join(path);
            assert!(!policy.allows(&path, Access::Read), "{platform:?} reads {}", path.display());
            assert!(!policy.allows(&path, Access::Write), "{platform:?} writes {}", path.display());
        }
        for path in [".cargo/bin/x", ".cargo/config.toml", ".local/bin/x", "p/a.rs"] {
            let path = Path::new("/home/u").join(path);
            assert!(policy.allows(&path, Access::Read), "{platform:?} does not read {}", path.display());
            assert!(!policy.allows(&path, Access::Write), "{platform:?} writes {}", path.display());
        }
        for path in [".bashrc", ".gitconfig", ".unheard-of/key", "notes.md"] {
            let path = Path::new("/home/u").join(path);
            assert!(!policy.allows(&path, Access::Read), "{platform:?} reads {}", path.display());
        }
        for path in [".cache/x", ".cargo/registry/index/x", ".npm/_cacache/x", "go/pkg/mod/x"] {
            assert!(writes_apart(platform, &policy, &format!("/home/u/{path}")), "{platform:?} {path}");
        }
        assert!(policy.allows("/home/u/p/.env.example", Access::Read));
        assert!(policy.allows("/usr/bin/env", Access::Read) && !policy.allows("/usr/bin/env", Access::Write));
    }
}

#[test]
fn names_of_secrets_are_known_in_every_spelling() {
    for platform in PLATFORMS {
        let policy = policy(platform, &inputs("/home/u/p"));
        let reads = |name: &str| policy.allows(Path::new("/home/u/p/a").join(name), Access::Read);
        for name in [
            ".env-prod",
            ".env_local",
            ".ENV",
            ".Env.Production",
            ".envrc.local",
            "server.PEM",
            "my-Credentials.json",
            "Service-Account-1.JSON",
            "terraform.TFSTATE",
            "production.env",
            ".pgpass",
            "id_ed25519",
        ] {
            assert!(!reads(name), "{platform:?} reads {name}");
        }
        for name in [
            ".env.example",
            ".env-example",
            ".env_sample",
            ".ENV.Template",
            ".environment",
            ".envoy.yaml",
            "id.pub.pem",
            "id_ed25519.pub",
            "example.env",
            "app.sample.env",
            "env-prod",
        ] {
            assert!(reads(name), "{platform:?} hides {name}");
        }
    }
}

#[test]
fn a_project_in_a_hidden_folder_opens_the_way_to_itself() {
    for platform in PLATFORMS {
        let inside = policy(platform, &inputs("/home/u/Documents/p"));
        assert!(inside.allows("/home/u/Documents/p/src/a.rs", Access::Read));
        assert!(!inside.allows("/home/u/Documents/taxes", Access::Read));
        assert!(!inside.allows("/home/u/Documents/p/.env", Access::Read));
        let itself = policy(platform, &inputs("/home/u/Documents"));
        assert!(itself.allows("/home/u/Documents/a.rs", Access::Read));
        assert!(!itself.allows("/home/u/Documents/.watchfire/x", Access::Read));
    }
}

#[test]
fn the_settings_open_and_close() {
    let mut inputs = inputs("/home/u/p");
    inputs.settings.read = vec!["~/.npmrc".into()];
    inputs.settings.write = vec!["/srv/data".into(), "~/notes".into()];
    inputs.settings.deny = vec!["~/notes/private".into(), "/srv".into()];
    inputs.settings.pass_env = vec!["MY_TOKEN".into()];
    let policy = policy(Platform::Linux { root: true }, &inputs);
    assert!(policy.allows("/home/u/.npmrc", Access::Read) && !policy.allows("/home/u/.npmrc", Access::Write));
    assert!(policy.allows("/srv/data/x", Access::Write) && !policy.allows("/srv/x", Access::Read));
    assert!(!policy.allows("/home/u/notes/private/x", Access::Read));
    assert!(policy.environment.passes(OsStr::new("MY_TOKEN")));
    assert!(!policy.environment.passes(OsStr::new("CARGO_REGISTRY_TOKEN")));
    assert!(!policy.environment.passes(OsStr::new("AWS_SECRET_ACCESS_KEY")));
    assert!(policy.environment.passes(OsStr::new("CARGO_HOME")));
    let rule = policy.decide(Path::new("/home/u/.npmrc"), Access::Read).rule.unwrap();
    assert!(rule.contains("settings: sandbox.read"), "{rule}");
}

#[test]
fn unusable_paths_are_named() {
    for bad in ["notes", "./notes", "/a/../b", "~other/x"] {
        let mut inputs = inputs("/home/u/p");
        inputs.settings.write = vec![bad.into()];
        let error = base_policy(&inputs).unwrap_err();
        assert_eq!(error.code(), "invalid_input", "{bad}");
        assert_eq!(error.detail("field"), Some("settings: sandbox.write"), "{bad}");
    }
    let mut homeless = PolicyInputs::new();
    homeless.settings.read = vec!["~/x".into()];
    assert!(base_policy(&homeless).unwrap_err().to_string().contains("home folder"));
}

#[test]
fn settings_decide_what_the_machine_is() {
    use watchfire_core::model::{NetworkSetting, Sharing};
    use watchfire_core::sandbox::{Network, Tmp};
    let linux = Platform::Linux { root: false };
    let mut inputs = PolicyInputs::new();
    inputs.home = Some("/home/u".into());
    let plain = policy(linux, &inputs);
    assert_eq!((&plain.network, plain.tmp), (&Network::Open, Tmp::Private));
    let store = "/home/u/.npm/_cacache/x";
    assert!(writes_apart(linux, &plain, store) && plain.apart, "{:?}", plain.notes);
    inputs.settings.caches = Some(Sharing::Shared);
    inputs.settings.step_down = Some(watchfire_core::model::StepDown::Allow);
    let shared = policy(linux, &inputs);
    assert!(shared.allows(store, Access::Write) && !shared.apart);
    assert!(!shared.allows("/home/u/.cargo/registry/src/x", Access::Write), "a build runs that later");

    inputs.settings.deny_ports = vec![7];
    assert_eq!(policy(linux, &inputs).network, Network::OpenExceptPorts(vec![7]));
    inputs.settings.network = Some(NetworkSetting::Closed);
    inputs.settings.tmp = Some(Sharing::Shared);
    inputs.settings.caches = Some(Sharing::Private);
    inputs.project_deny = vec!["~/other".into()];
    let tight = policy(linux, &inputs);
    assert_eq!((&tight.network, tight.tmp), (&Network::Closed, Tmp::Shared));
    assert!(!tight.allows("/home/u/.npm/_cacache/x", Access::Write));
    assert!(tight.allows("/home/u/.npm/_cacache/x", Access::Read));
    let denied = tight.decide("/home/u/other/x".as_ref(), Access::Read);
    assert!(denied.rule.is_some_and(|rule| rule.contains("project.yaml")));
}

#[test]
fn what_variables_move_is_held_where_it_is() {
    let mut inputs = inputs("/home/u/p");
    inputs.environment =
        [("XDG_CONFIG_HOME", "/srv/cfg"), ("CARGO_HOME", "/srv/cargo"), ("XDG_CACHE_HOME", "/home/u")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    let policy = policy(Platform::Linux { root: false }, &inputs);
    for path in ["/srv/cfg/gh/hosts.yml", "/srv/cargo/credentials.toml", "/home/u/.config/gh/hosts.yml"] {
        assert!(!policy.allows(path, Access::Read), "{path} can be read");
    }
    assert!(writes_apart(Platform::Linux { root: false }, &policy, "/srv/cargo/registry/x"));
    for path in ["/srv/cargo/config.toml", "/srv/cargo/bin/x"] {
        assert!(policy.allows(path, Access::Read) && !policy.allows(path, Access::Write), "{path}");
    }
    assert!(!policy.allows("/home/u/.bashrc", Access::Read));
}

#[test]
fn a_home_that_cannot_be_closed_is_refused() {
    for (home, project, why) in [
        ("/", "/p", "part of the system"),
        ("/usr/share/x", "/p", "part of the system"),
        ("/tmp", "/p", "part of the system"),
        ("/home/u", "/home/u", "holds your home folder"),
        ("/home/u", "/home", "holds your home folder"),
    ] {
        let mut inputs = inputs(project);
        inputs.home = Some(home.into());
        let policy = policy(Platform::Linux { root: false }, &inputs);
        assert!(policy.refusals.iter().any(|said| said.contains(why)), "{home}: {:?}", policy.refusals);
    }
    for home in ["/home/u", "/root", "/opt/jenkins", "/tmp/home", "/data/u"] {
        let mut inputs = inputs("/srv/p");
        inputs.home = Some(home.into());
        let policy = policy(Platform::Linux { root: false }, &inputs);
        assert_eq!(policy.refusals, [""; 0], "{home}");
        assert!(!policy.allows(Path::new(home).join(".any"), Access::Read), "{home}");
    }
}

#[test]
fn a_login_in_the_settings_of_a_toolchain_does_not_show() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join("home").join(name);
    let token = "//registry.npmjs.org/:_authToken=abc\n";
    for (name, text) in [
        (".npm-global/etc/npmrc", token),
        (".nvm/versions/node/v22.1.0/etc/npmrc", token),
        (".nvm/versions/node/v20.0.0/etc/npmrc", "fund=false\n"),
        (".virtualenvs/work/pip.conf", "[global]\nindex-url = https://me:abc@example.invalid/simple\n"),
    ] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), text).unwrap();
    }
    for platform in PLATFORMS {
        let mut inputs = PolicyInputs::new();
        inputs.home = Some(temp.path().join("home"));
        let policy = policy(platform, &inputs);
        let reads = |name: &str| policy.allows(at(name), Access::Read);
        for hidden in
            [".npm-global/etc/npmrc", ".nvm/versions/node/v22.1.0/etc/npmrc", ".virtualenvs/work/pip.conf"]
        {
            assert!(!reads(hidden), "{platform:?} reads {hidden}");
        }
        for shown in [".nvm/versions/node/v20.0.0/etc/npmrc", ".npm-global/bin/x"] {
            assert!(reads(shown), "{platform:?} hides {shown}");
        }
    }
}
