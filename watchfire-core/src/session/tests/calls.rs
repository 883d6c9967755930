//! Calls of an agent.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Stage, within};
use crate::Result;
use crate::endpoint::{AgentAction, AgentCall};
use crate::session::Session;
use crate::session::talk::desk::{AT_ONCE, Calls, Desk, Reply};

/// Replies to a call once it is let go.
#[derive(Default)]
struct Slow {
    begun: Notify,
    go: Notify,
}

#[async_trait]
impl Desk for Slow {
    async fn call(&self, _: &Session, call: &AgentCall) -> Result<Option<Reply>> {
        self.begun.notify_one();
        self.go.notified().await;
        Ok(Some(json!(call.id).into()))
    }
}

#[tokio::test]
async fn one_call_too_many_is_refused_until_another_has_ended() {
    let (stage, desk) = (Stage::new(), Arc::new(Slow::default()));
    let calls = Arc::new(Calls::new(Some(Arc::clone(&desk) as Arc<dyn Desk>)));
    let call = |id: usize| {
        let (calls, session) = (Arc::clone(&calls), stage.session.clone());
        let call = AgentCall::new(id.to_string(), AgentAction::List);
        async move { calls.answer(&session, &call).await.unwrap().0 }
    };
    let mut under_way = tokio::task::JoinSet::new();
    for id in 0..AT_ONCE {
        under_way.spawn(call(id));
        within(desk.begun.notified()).await;
    }
    let refused: Value = within(call(AT_ONCE)).await;
    assert_eq!(refused["error"]["code"], "busy", "{refused}");

    desk.go.notify_one();
    within(under_way.join_next()).await.unwrap().unwrap();
    under_way.spawn(call(AT_ONCE));
    within(desk.begun.notified()).await;
    desk.go.notify_waiters();
    let replies = within(under_way.join_all()).await;
    assert!(replies.len() == AT_ONCE && replies.iter().all(|reply| reply["error"].is_null()), "{replies:?}");
}
