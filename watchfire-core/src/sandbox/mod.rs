//! Seam 2: policies for the files, network and resources of agents, and the sandboxes that enforce them.
//!
//! A [`SandboxPolicy`] is plain data that means the same on every platform; [`SandboxPolicy::decide`] is the one
//! oracle of what it means. A [`Sandbox`] turns it into a [`Confined`] command and reports what is enforced.

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod decide;
mod environment;
#[cfg(feature = "runtime")]
mod follow_links;
#[cfg(feature = "runtime")]
mod made;
mod none;
mod policy;
#[cfg(feature = "orchestrator")]
mod refusal;
mod report;
mod secret_names;
mod set;

pub use contract::{Confined, Denials, Descriptor, Lasting, Sandbox, SandboxGuard};
pub use decide::{Access, Decision, Verdict};
pub use environment::{EnvironmentPolicy, has_login, is_token};
#[cfg(feature = "runtime")]
pub use follow_links::follow_links;
pub use none::NoSandbox;
pub use policy::{
    Bind, Enforcement, Kept, NamePattern, Network, OwnFile, Rule, RuleAccess, SandboxPolicy,
    SandboxPolicyBuilder, Tmp,
};
#[cfg(feature = "orchestrator")]
pub use refusal::{Refusal, Refusals, Refused};
pub use report::{Control, ControlState, Mechanism, PolicyReport, Probe};
pub use set::{PolicyInputs, SandboxChoice, SandboxSet};
