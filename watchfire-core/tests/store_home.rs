//! The Watchfire home: settings, the index, and projects.
#![cfg(feature = "yaml")]

use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use watchfire_core::ErrorKind;
use watchfire_core::clock::SystemClock;
use watchfire_core::model::{ProjectStatus, Settings};
use watchfire_core::store::{
    Home, HomeChange, HomeChanges, NewProject, NewTask, ProjectPatch, TaskStore, YamlOptions,
};

async fn open(path: &Path) -> Home {
    let options =
        YamlOptions::new("").with_poll(Duration::from_secs(86_400)).with_debounce(Duration::from_millis(5));
    Home::open_with(path, Arc::new(SystemClock), &options).await.unwrap()
}

async fn until(changes: &mut HomeChanges, wanted: HomeChange) {
    let seen = async { while poll_fn(|c| changes.as_mut().poll_next(c)).await.expect("open") != wanted {} };
    tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap_or_else(|_| panic!("no {wanted:?}"));
}

fn project(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir(&path).unwrap();
    path.canonicalize().unwrap()
}

async fn names(home: &Home) -> Vec<String> {
    home.projects().await.unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn where_the_home_is() {
    let path = |home: &str, own: &str| {
        let (home, own) = (home.to_owned(), own.to_owned());
        Home::default_path(move |name| match name {
            "HOME" if !home.is_empty() => Some(home.clone().into()),
            "WATCHFIRE_HOME" if !own.is_empty() => Some(own.clone().into()),
            _ => None,
        })
    };
    assert_eq!(path("/h", "").unwrap(), Path::new("/h/.watchfire"));
    assert_eq!(path("/h", "/w").unwrap(), Path::new("/w"));
    assert_eq!(
        path("/h", "relative").unwrap_err().kind(),
        ErrorKind::InvalidInput,
        "no other home in its place"
    );
    assert_eq!(path("", "").unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_new_home_is_private_and_full_of_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir.path().join("a/home")).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.path()), 0o700);
    assert_eq!(home.settings().await.unwrap(), Settings::default());
    assert!(home.projects().await.unwrap().is_empty());
    let holder = home.holder().clone();
    assert_eq!(
        std::fs::read_to_string(home.path().join("installation_id")).unwrap(),
        format!("{}\n", holder.home)
    );
    let again = open(home.path()).await;
    assert!(again.holder().same_home(&holder) && again.holder().start != holder.start);
    assert_eq!(holder.to_string(), format!("{}/{}/{}", holder.machine, holder.home, holder.start));
}

#[tokio::test]
async fn settings_are_edited_with_care_and_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(dir.path()).await;
    let mut changes = home.subscribe();
    let file = dir.path().join("settings.yaml");
    let text = "# mine\nversion: 1\n\nagents:\n  claude-code:\n    path: null        # null = lookup in PATH\n  # \
                more here\n\ndefaults:\n  auto_merge: true  # yes\n  default_sandbox: \"sandbox-exec\"\n  notifications: \
                {enabled: true}\n\nupdates:\n  check_on_startup: true\n";
    std::fs::write(&file, text).unwrap();
    until(&mut changes, HomeChange::Settings).await;
    let settings = home.update_settings(|settings| settings.defaults.auto_merge = false).await.unwrap();
    assert!(!settings.defaults.auto_merge);
    until(&mut changes, HomeChange::Settings).await;
    let changed = text.replace("auto_merge: true  # yes", "auto_merge: false  # yes");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), changed);
    let bad = text.replace("auto_merge: true", "auto_merge: perhaps");
    std::fs::write(&file, &bad).unwrap();
    let error = home.settings().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.detail("line")),
        (ErrorKind::Malformed, Some("10")),
        "{}",
        error.report()
    );
    assert!(
        error.message().contains("auto_merge") && error.detail("path").unwrap().ends_with("settings.yaml")
    );
    let error = home.update_settings(|settings| settings.defaults.auto_merge = false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), bad);
    std::fs::remove_file(&file).unwrap();
    home.update_settings(|settings| settings.defaults.default_agent = "codex".to_owned()).await.unwrap();
    assert_eq!(home.settings().await.unwrap().defaults.default_agent, "codex");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[tokio::test]
async fn a_project_is_made_with_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir.path().join("home")).await;
    let root = project(dir.path(), "мой 'проект'");
    let new = NewProject::new()
        .with_definition("# Title\n\ntext\n")
        .with_default_branch("main")
        .with_auto_merge(Some(true))
        .with_verify(vec!["cargo test".to_owned()]);
    let made = home.init_project(&root, new.clone()).await.unwrap();
    assert_eq!((made.name.as_str(), made.next_task_number), ("мой 'проект'", 1));
    let inside = root.join(".watchfire");
    assert!(inside.join("tasks").is_dir() && inside.join("secrets/instructions.md").is_file());
    assert_eq!(std::fs::read_to_string(inside.join("memory.md")).unwrap(), "");
    assert!(!root.join(".git").exists());
    assert_eq!(home.import_project(&root).await.unwrap(), made);
    let error = home.init_project(&root, new).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let entries = home.projects().await.unwrap();
    assert_eq!(
        (entries.len(), entries[0].path.as_path(), &entries[0].project_id),
        (1, root.as_path(), &made.project_id)
    );
    let store = home.open_store(&root, None).await.unwrap();
    assert_eq!(store.create(NewTask::new("first"), None).await.unwrap().value.task_number.value(), 1);
    let error = home.import_project(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(home.logs_dir(&made.project_id).ends_with(format!("logs/{}", made.project_id)));
}

#[tokio::test]
async fn the_index_keeps_order_and_heals_itself() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir.path().join("home")).await;
    let mut changes = home.subscribe();
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let made = home.init_project(project(dir.path(), name), NewProject::new()).await.unwrap();
        ids.push(made.project_id);
    }
    until(&mut changes, HomeChange::Projects).await;
    home.reorder(vec![ids[2].clone(), ids[0].clone()]).await.unwrap();
    assert_eq!(names(&home).await, ["c", "a", "b"]);
    let unknown = home.reorder(vec!["unknown".parse().unwrap()]).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    home.unregister(ids[0].clone()).await.unwrap();
    assert_eq!(names(&home).await, ["c", "b"]);
    // A project that moved and was archived comes back under its old place in the order.
    let store = home.open_store(dir.path().join("b"), None).await.unwrap();
    store.update_project(ProjectPatch::new().with_status(ProjectStatus::Archived), None, None).await.unwrap();
    std::fs::rename(dir.path().join("b"), dir.path().join("moved")).unwrap();
    let entry = home.ensure_registered(dir.path().join("moved")).await.unwrap();
    assert!(entry.path.ends_with("moved") && entry.project_id == ids[1] && entry.position == 3);
    let store = home.open_store(dir.path().join("moved"), None).await.unwrap();
    assert_eq!(store.project().await.unwrap().value.status, ProjectStatus::Active);
    // Another project at a known path takes its place.
    std::fs::remove_dir_all(dir.path().join("c")).unwrap();
    let made = home
        .init_project(project(dir.path(), "c"), NewProject::new().with_name("new c".to_owned()))
        .await
        .unwrap();
    assert_eq!(names(&home).await, ["b", "new c"]);
    assert_ne!(made.project_id, ids[2]);
    // The index is gone: the next command of a project brings it back.
    std::fs::remove_file(home.path().join("projects.yaml")).unwrap();
    until(&mut changes, HomeChange::Projects).await;
    home.ensure_registered(dir.path().join("moved")).await.unwrap();
    assert_eq!(names(&home).await, ["b"]);
}

#[tokio::test]
async fn a_copy_gets_an_id_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir.path().join("home")).await;
    let root = project(dir.path(), "p");
    let made = home.init_project(&root, NewProject::new()).await.unwrap();
    let copy = project(dir.path(), "copy");
    std::fs::create_dir(copy.join(".watchfire")).unwrap();
    std::fs::copy(root.join(".watchfire/project.yaml"), copy.join(".watchfire/project.yaml")).unwrap();
    let error = home.ensure_registered(&copy).await.unwrap_err();
    assert_eq!((error.kind(), error.detail("original")), (ErrorKind::Conflict, root.to_str()));
    assert_eq!(home.projects().await.unwrap()[0].path, root, "the original stays where it is");
    let renewed = home.renew_id(&copy).await.unwrap();
    assert_ne!(renewed.project_id, made.project_id);
    assert_eq!(names(&home).await.len(), 2);
    assert_eq!(home.ensure_registered(&copy).await.unwrap().project_id, renewed.project_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_registrations_all_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (open(&dir.path().join("home")).await, open(&dir.path().join("home")).await);
    let homes = [Arc::new(one), Arc::new(other)];
    let made: Vec<_> = (0..10)
        .map(|i| {
            let (home, root) = (Arc::clone(&homes[i % 2]), project(dir.path(), &format!("p{i}")));
            tokio::spawn(async move { home.init_project(root, NewProject::new()).await.unwrap() })
        })
        .collect();
    for task in made {
        task.await.unwrap();
    }
    let mut positions: Vec<_> =
        homes[0].projects().await.unwrap().iter().map(|entry| entry.position).collect();
    positions.sort_unstable();
    assert_eq!(positions, (1..=10).collect::<Vec<_>>());
}
