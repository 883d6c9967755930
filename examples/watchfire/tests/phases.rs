//! Which agent and which model works in which phase of wildfire.

mod support;

use std::fs;
use std::path::Path;

use support::World;

/// Makes three agents that note their name, their model and what they do, and do it.
fn agents(world: &World) {
    let said = world.home.join("said");
    let program = world.home.join("agent");
    let script = format!(
        "say() {{ echo \"$name $model $1\" >> '{}'; }}\n\
         name=$1; model=$2; cd \"$WATCHFIRE_SESSION_DIR\"\n\
         task() {{ sed -i \"s/^status: .*/status: $1/\" \"$WATCHFIRE_TASK_FILE\"; }}\n\
         case \"$3\" in\n\
         *Refine*) say refine; task ready; touch refine_done.yaml;;\n\
         *Implement*) say execute; task done;;\n\
         *) say generate; touch generate_done.yaml;;\n\
         esac\n",
        said.display()
    );
    fs::write(&program, script).unwrap();
    let agent = |name: &str, model: &str| {
        format!(
            "  {name}:\n    path: /bin/sh\n    args: ['{}', {name}, '{{model}}', '{{prompt}}', '{{system_prompt_file}}']\n    transport: lines\n    prompt_mode: arg\n{model}",
            program.display()
        )
    };
    let settings = format!(
        "version: 1\nagents:\n{}{}{}",
        agent("worker", "    model: small\n"),
        agent("planner", "    model: small\n"),
        agent("other", "    model: own\n"),
    );
    fs::write(world.path("watchfire-home/settings.yaml"), settings).unwrap();
}

const WILDFIRE: [&str; 2] = ["wildfire", "--no-sandbox"];

/// Runs wildfire over a ready task, a draft and a task with an agent of its own. Returns what the agents noted.
fn noted(more: &str, flags: &[&str]) -> Vec<String> {
    let world = World::new();
    let root = world.project("project", more);
    agents(&world);
    let add = ["task", "add", "--prompt", "x", "--title"];
    world.run(&root, add.iter().chain(&["ready", "--ready"])).good();
    world.run(&root, add.iter().chain(&["own", "--ready", "--agent", "other"])).good();
    world.run(&root, add.iter().chain(&["draft"])).good();
    world.run(&root, WILDFIRE.iter().chain(flags)).good();
    fs::read_to_string(world.home.join("said")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn each_phase_has_its_agent_and_its_model() {
    let more = "default_agent: worker\nwildfire:\n  agent: planner\n  execute: {model: large}\n  \
                refine: {model: vendor/huge-2}\n  generate: {agent: other, model: tiny}";
    assert_eq!(
        noted(more, &[]),
        [
            "worker large execute",
            // Not the model of the project's agent.
            "other own execute",
            "planner vendor/huge-2 refine",
            "worker large execute",
            "other tiny generate",
        ]
    );
    // As before there were phases.
    let more = "default_agent: worker\nwildfire: {agent: planner}";
    assert_eq!(
        noted(more, &[]),
        [
            "worker small execute",
            "other own execute",
            "planner small refine",
            "worker small execute",
            "planner small generate"
        ]
    );
    let more = "default_agent: worker\nwildfire:\n  execute: {agent: planner, model: large}";
    assert_eq!(
        noted(more, &["--agent", "other"]),
        [
            "other own execute",
            "other own execute",
            "other own refine",
            "other own execute",
            "other own generate"
        ],
        "the person's word goes first"
    );
}

#[test]
fn a_wrong_name_is_found_before_anything_starts() {
    let world = World::new();
    let root = world.project("project", "default_agent: worker");
    agents(&world);
    world.run(&root, ["task", "add", "--prompt", "x", "--title", "ready", "--ready"]).good();
    let project = root.join(".watchfire/project.yaml");
    let plain = fs::read_to_string(&project).unwrap();
    let with = |more: &str| fs::write(&project, format!("{plain}{more}\n")).unwrap();
    for (more, code, part) in [
        ("wildfire: {refine: {agent: plannner}}", "unknown_backend", "wildfire.refine.agent"),
        ("wildfire: {agent: plannner}", "unknown_backend", "wildfire.agent"),
        ("wildfire: {generate: {model: '--yolo'}}", "invalid_input", "wildfire.generate.model"),
        ("wildfire: {execute: {model: 'x; touch /tmp/x'}}", "invalid_input", "wildfire.execute.model"),
    ] {
        with(more);
        let error = world.run(&root, WILDFIRE.iter().chain(&["--json"])).code(1).json_error();
        assert_eq!(error["code"], code, "{more}: {error}");
        assert!(error.to_string().contains(part), "{more}: {error}");
    }
    // Also where there are drafts alone, which the project's agent refines.
    world.run(&root, ["task", "draft", "1"]).good();
    fs::write(&project, plain.replace("default_agent: worker", "default_agent: plannner")).unwrap();
    let error = world.run(&root, WILDFIRE.iter().chain(&["--json"])).code(1).json_error();
    assert_eq!(
        (&error["code"], &error["details"]["file"]),
        (&"unknown_backend".into(), &"project.yaml".into())
    );
    assert!(!Path::new(&world.home.join("said")).exists(), "no agent has started");
    with("wildfire: {refine: {modle: x}}");
    let told = world.run(&root, ["doctor"]);
    assert!(told.stdout.contains("wildfire.refine.modle"), "{}", told.stdout);
    with("wildfire: {refine: {agent: planner, model: huge}}");
    let told = world.run(&root, ["doctor"]);
    assert!(told.stdout.contains("planner, huge"), "{}", told.stdout);
}

#[test]
fn a_draft_says_why_it_was_not_refined() {
    let world = World::new();
    let root = world.project("project", "default_agent: worker");
    agents(&world);
    let leaves = "cd \"$WATCHFIRE_SESSION_DIR\"; touch refine_done.yaml generate_done.yaml\n";
    fs::write(world.home.join("agent"), leaves).unwrap();
    world.run(&root, ["task", "add", "--prompt", "Vague words", "--title", "draft"]).good();
    world.run(&root, WILDFIRE).code(3);
    for args in [&["task", "list"][..], &["task", "show", "1"]] {
        let said = world.run(&root, args).good().stdout;
        let why = "not refined: failed: the agent left it a draft: Vague words";
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_task_that_a_budget_refuses_says_that_nothing_was_started() {
    let world = World::new();
    let root = world.project("project", "default_agent: worker");
    agents(&world);
    let settings = world.path("watchfire-home/settings.yaml");
    let text = fs::read_to_string(&settings).unwrap() + "budget: {task: 5, unknown: refuse}\n";
    fs::write(&settings, text).unwrap();
    world.run(&root, ["task", "add", "--prompt", "x", "--title", "ready", "--ready"]).good();
    let said = world.run(&root, ["run", "1", "--no-sandbox"]).code(3).stdout;
    assert!(said.contains("no agent was started; change `budget` in settings.yaml"), "{said}");
}
