//! `watchfire costs`: adds up what sessions cost.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use watchfire_core::model::{BudgetSettings, Dollars};
use watchfire_core::orchestrator::{Costs, CostsBy, Spent};

use crate::context::{Context, clock};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Amounts follow the prices of the providers; where a session told no tokens, or the price of its model is not
known, they are lower bounds. `budget: {task: 5.00, day: 50}` in settings.yaml limits them.

Examples:
  watchfire costs                     what each task cost
  watchfire costs --by day            what each day cost")]
pub(crate) struct CostsArgs {
    /// Group the sums by
    #[arg(long, value_enum, default_value_t = By::Task)]
    by: By,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Task,
    Day,
    Agent,
    Run,
    Session,
}

impl From<By> for CostsBy {
    fn from(by: By) -> Self {
        match by {
            By::Task => Self::Task,
            By::Day => Self::Day,
            By::Agent => Self::Agent,
            By::Run => Self::Run,
            By::Session => Self::Session,
        }
    }
}

fn details(costs: &Costs) -> String {
    let Costs { sessions, unknown, spent, .. } = *costs;
    let mut parts = vec![text::count(sessions, "session")];
    parts.extend((unknown > 0 && unknown < sessions).then(|| format!("{unknown} not known")));
    // Without the cost: it is shown in front, as the amount.
    let tokens = Spent::new(spent.usage, None);
    parts.extend((!tokens.is_nothing()).then(|| tokens.to_string()));
    parts.join(", ")
}

fn json_of(costs: &Costs, of: &str) -> Value {
    json!({
        "of": of,
        "dollars": costs.dollars(),
        "is_lower_bound": costs.is_lower_bound(),
        "sessions": costs.sessions,
        "usage": costs.spent.usage,
    })
}

pub(crate) async fn run(context: &Context, args: CostsArgs) -> Result<Exit> {
    let project = context.project().await?;
    let records = Spent::records(&project.home.logs_dir(&project.id))?;
    let budget = project.home.settings().await?.budget;
    let sums: BTreeMap<_, _> = Costs::grouped(&records, args.by.into())
        .into_iter()
        .map(|(of, costs)| (text::line(&of), costs))
        .collect();
    let today = clock().now().date();
    // The budget of a day is shared by all projects of the home.
    let logs = project.home.logs_dir(&project.id);
    // The logs of all projects lie beside each other.
    let everywhere = Spent::records_of_home(logs.parent().unwrap_or(&logs));
    let of_today =
        Costs::of(everywhere.iter().filter(|it| it.at.as_ref().is_some_and(|at| at.date() == today)));
    let all = Costs::of(&records);
    let value = json!({
        "today": json_of(&of_today, &today),
        "all": json_of(&all, "all"),
        "budget": { "task": budget.task, "day": budget.day },
        "costs": sums.iter().map(|(name, costs)| json_of(costs, name)).collect::<Vec<_>>(),
    });
    context.out.report(value, |out| show(out, &of_today, &all, &sums, &budget, args.by));
    Ok(Exit::Good)
}

fn show(
    out: Out,
    of_today: &Costs,
    all: &Costs,
    sums: &BTreeMap<String, Costs>,
    budget: &BudgetSettings,
    by: By,
) -> String {
    if all.sessions == 0 {
        return "no sessions yet\n".to_owned();
    }
    let of = |limit: Option<Dollars>| limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    // A task's budget says nothing about the sums of days, agents or runs.
    let limit = if matches!(by, By::Task) { budget.task } else { None };
    let mut rows: Vec<(String, String, String)> = sums
        .iter()
        .map(|(name, sum)| (name.clone(), format!("{}{}", sum, of(limit)), details(sum)))
        .collect();
    rows.push(("this project".to_owned(), all.to_string(), details(all)));
    rows.push((
        "today, all projects".to_owned(),
        format!("{}{}", of_today, of(budget.day)),
        details(of_today),
    ));
    let width = |column: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| text::width(column(row))).max().unwrap_or_default()
    };
    let (first, second) = (width(|row| &row.0), width(|row| &row.1));
    let lines = rows.iter().map(|(name, amount, details)| {
        format!("{}  {}  {}\n", text::pad(name, first), text::pad(amount, second), out.style.dim(details))
    });
    lines.collect()
}
