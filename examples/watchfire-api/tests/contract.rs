//! The API is the one of the specification: services, calls, messages and field numbers. What we add has other names or higher
//! numbers.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// Call, request, answer. An answer after `*` is a stream.
type Call = (&'static str, &'static str, &'static str);

/// The services with their calls.
const CALLS: &[(&str, &[Call])] = &[
    (
        "ProjectService",
        &[
            ("ListProjects", "Empty", "ProjectList"),
            ("GetProject", "ProjectId", "Project"),
            ("CreateProject", "CreateProjectRequest", "Project"),
            ("UpdateProject", "UpdateProjectRequest", "Project"),
            ("DeleteProject", "ProjectId", "Empty"),
            // The specification names no service for it; it is about one project.
            ("Subscribe", "SubscribeRequest", "*Event"),
        ],
    ),
    (
        "TaskService",
        &[
            ("ListTasks", "ListTasksRequest", "TaskList"),
            ("GetTask", "TaskId", "Task"),
            ("CreateTask", "CreateTaskRequest", "Task"),
            ("UpdateTask", "UpdateTaskRequest", "Task"),
            ("DeleteTask", "TaskId", "Task"),
            ("RestoreTask", "TaskId", "Task"),
            ("EmptyTrash", "ProjectId", "Empty"),
            ("BulkUpdateStatus", "BulkUpdateStatusRequest", "TaskList"),
            ("BulkDelete", "BulkDeleteRequest", "TaskList"),
            ("BulkRestore", "BulkRestoreRequest", "TaskList"),
            ("ReorderTasks", "ReorderTasksRequest", "TaskList"),
        ],
    ),
    (
        "AgentService",
        &[
            ("StartAgent", "StartAgentRequest", "AgentStatus"),
            ("StopAgent", "ProjectId", "AgentStatus"),
            ("GetAgentStatus", "ProjectId", "AgentStatus"),
            ("SubscribeScreen", "SubscribeScreenRequest", "*ScreenBuffer"),
            ("SubscribeRawOutput", "SubscribeRawOutputRequest", "*RawOutputChunk"),
            ("GetScrollback", "ScrollbackRequest", "ScrollbackLines"),
            ("SendInput", "SendInputRequest", "Empty"),
            ("Resize", "ResizeRequest", "Empty"),
            ("SubscribeAgentIssues", "SubscribeAgentIssuesRequest", "*AgentIssue"),
            ("ResumeAgent", "ProjectId", "AgentStatus"),
        ],
    ),
    (
        "BranchService",
        &[
            ("ListBranches", "ProjectId", "BranchList"),
            ("GetBranch", "BranchId", "Branch"),
            ("MergeBranch", "MergeBranchRequest", "Branch"),
            ("DeleteBranch", "BranchId", "Empty"),
            ("PruneBranches", "ProjectId", "BranchList"),
            ("BulkMerge", "BulkBranchRequest", "BranchList"),
            ("BulkDelete", "BulkBranchRequest", "Empty"),
        ],
    ),
    (
        "LogService",
        &[
            ("ListLogs", "ListLogsRequest", "LogList"),
            ("GetLog", "LogId", "Log"),
            // The same as GetLog; both names are in the specification.
            ("ReadLog", "LogId", "Log"),
            ("DeleteLog", "LogId", "Empty"),
            ("BulkDelete", "BulkLogRequest", "Empty"),
            ("DeleteAllForTask", "TaskId", "Empty"),
            ("DeleteAllForProject", "ProjectId", "Empty"),
        ],
    ),
    (
        "DaemonService",
        &[("GetStatus", "Empty", "DaemonStatus"), ("Shutdown", "Empty", "Empty"), ("Ping", "Empty", "Empty")],
    ),
    ("SettingsService", &[("GetSettings", "Empty", "Settings"), ("UpdateSettings", "Settings", "Settings")]),
];

/// Message, and its fields as `number label type name`. A label of `?` is an optional field, `*` a repeated one.
const FIELDS: &[(&str, &[&str])] = &[
    ("RequestMeta", &["1 string origin", "2 string client_id", "3 string version"]),
    (
        "BulkUpdateStatusRequest",
        &["1 RequestMeta meta", "2 string project_id", "3 * int32 task_numbers", "4 string new_status"],
    ),
    (
        "AgentIssue",
        &[
            "1 string issue_type",
            "2 Timestamp detected_at",
            "3 string message",
            "4 ? Timestamp reset_at",
            "5 ? Timestamp cooldown_until",
        ],
    ),
    (
        "Log",
        &[
            "1 string log_id",
            "2 string project_id",
            "3 int32 task_number",
            "4 int32 session_number",
            "5 string agent",
            "6 string started_at",
            "7 string ended_at",
            "8 string content",
            "9 string status",
        ],
    ),
    ("SubscribeRequest", &["1 RequestMeta meta", "2 string project_id"]),
    (
        "Event",
        &[
            "1 string event_type",
            "2 string timestamp",
            "3 Task task",
            "4 AgentStatus agent",
            "5 Branch branch",
        ],
    ),
];

fn api() -> FileDescriptorProto {
    let all = FileDescriptorSet::decode(watchfire_api::DESCRIPTORS).unwrap();
    all.file.into_iter().find(|file| file.package() == "watchfire").unwrap()
}

/// The last part of a type's name.
fn short(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().to_owned()
}

#[test]
fn every_call_of_the_specification_is_there() {
    let ours: BTreeMap<_, BTreeMap<_, _>> = api()
        .service
        .iter()
        .map(|service| {
            let calls = service.method.iter().map(|call| {
                let star = if call.server_streaming() { "*" } else { "" };
                let answer = format!("{star}{}", short(call.output_type()));
                (call.name().to_owned(), (short(call.input_type()), answer))
            });
            (service.name().to_owned(), calls.collect())
        })
        .collect();
    for (service, calls) in CALLS {
        for (call, request, answer) in *calls {
            let found = ours.get(*service).and_then(|calls| calls.get(*call));
            assert_eq!(found, Some(&((*request).to_owned(), (*answer).to_owned())), "{service}.{call}");
        }
    }
}

#[test]
fn fields_have_the_numbers_of_the_specification() {
    let api = api();
    for (name, fields) in FIELDS {
        let message = api.message_type.iter().find(|it| it.name() == *name).unwrap();
        let ours: Vec<_> = message
            .field
            .iter()
            .map(|field| {
                let kind = match field.r#type() {
                    Type::Message | Type::Enum => short(field.type_name()),
                    kind => kind.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
                };
                let label = match field.label() {
                    Label::Repeated => "* ",
                    _ if field.proto3_optional() => "? ",
                    _ => "",
                };
                format!("{} {label}{kind} {}", field.number(), field.name())
            })
            .collect();
        for field in *fields {
            assert!(ours.iter().any(|it| it == field), "{name}: {field} is not in {ours:?}");
        }
    }
}

/// Every request says who calls, so that clients can be told apart.
#[test]
fn requests_say_who_calls() {
    let api = api();
    for call in api.service.iter().flat_map(|service| &service.method) {
        let request = short(call.input_type());
        if request == "Empty" {
            continue;
        }
        let message = api.message_type.iter().find(|it| it.name() == request).unwrap();
        let meta = message.field.iter().find(|field| field.name() == "meta");
        assert_eq!(meta.map(|field| field.number()), Some(1), "{request}");
    }
}

/// The rules of `buf lint` that keep an API readable and able to grow. Those about names of packages, requests and answers are
/// not among them, because the specification has others.
#[test]
fn names_and_comments_keep_the_rules() {
    let all = FileDescriptorSet::decode(watchfire_api::DESCRIPTORS).unwrap();
    let camel = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains('_');
    let snake = |name: &str| {
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_lowercase())
    };
    for file in all.file.iter().filter(|file| file.package().starts_with("watchfire")) {
        for service in &file.service {
            assert!(camel(service.name()) && service.name().ends_with("Service"), "{}", service.name());
            assert!(service.method.iter().all(|call| camel(call.name())), "{}", service.name());
        }
        // The specification's own calls are described there.
        if file.package() != "watchfire" {
            let described = |path: &[i32]| {
                let places = &file.source_code_info.as_ref().unwrap().location;
                places.iter().any(|place| place.path == path && place.leading_comments.is_some())
            };
            for (service, at) in file.service.iter().zip(0..) {
                assert!(described(&[6, at]), "{} has no comment", service.name());
                for (call, nth) in service.method.iter().zip(0..) {
                    assert!(described(&[6, at, 2, nth]), "{} has no comment", call.name());
                }
            }
            for (kind, at) in file.enum_type.iter().zip(0..) {
                assert!(described(&[5, at]), "{} has no comment", kind.name());
            }
        }
        for message in &file.message_type {
            assert!(camel(message.name()), "{}", message.name());
            for field in &message.field {
                assert!(snake(field.name()), "{}.{}", message.name(), field.name());
            }
        }
        for kind in &file.enum_type {
            let prefix = kind.name().chars().fold(String::new(), |mut all, c| {
                if c.is_ascii_uppercase() && !all.is_empty() {
                    all.push('_');
                }
                all.push(c.to_ascii_uppercase());
                all
            });
            assert!(camel(kind.name()), "{}", kind.name());
            assert!(kind.value.iter().all(|value| value.name().starts_with(&prefix)), "{}", kind.name());
            let zero = kind.value.iter().find(|value| value.number() == 0).unwrap();
            assert!(zero.name().ends_with("_UNSPECIFIED"), "{}", zero.name());
        }
    }
}
