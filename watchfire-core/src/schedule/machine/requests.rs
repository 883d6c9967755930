//! Requests of people and programs, which are decided at once.

use crate::ErrorKind;
use crate::model::{Mode, TaskNumber, TaskStatus};
use crate::schedule::{
    Accept, Accepted, Answer, CallerEnvironment, Change, ChatPlace, Command, CommandId, CommandRecord, Life,
    LifeId, LifeState, Refusal, Request, ResumeTarget, Run, RunId, RunOptions, Schedule, Scope, Step,
    StopReason, Subject, Wait,
};

impl Schedule {
    /// Decides a request and answers it. A request whose id was decided before gets the same answer and has no effect.
    pub(in crate::schedule) fn request(&mut self, command: Option<CommandId>, request: Request) {
        let digest = digest(request.clone());
        if let Some(known) = command.as_ref().and_then(|id| self.ledger.commands.get(id)) {
            // A caller that reuses an id by mistake must not take the answer to another request for its own.
            let outcome = match known.digest == digest {
                true => known.outcome.clone(),
                false => Err(Refusal::new(ErrorKind::Conflict, "another request has the same command id")),
            };
            self.out.push(Step::Reply(outcome));
            return;
        }
        if self.closing && request != Request::Close {
            // Not recorded: after the next start, the same request may be accepted.
            let refusal = Refusal::new(ErrorKind::Cancelled, "the project is being closed");
            self.out.push(Step::Reply(Err(refusal)));
            return;
        }
        let outcome = self.decide(request);
        if let Some(id) = command {
            let record = CommandRecord { digest, at: self.stamp(), outcome: outcome.clone() };
            self.record(Change::Command { id, record });
        }
        self.out.push(Step::Reply(outcome));
    }

    fn decide(&mut self, request: Request) -> Result<Accepted, Refusal> {
        match request {
            Request::Close => {
                self.close();
                Ok(Accepted::default())
            }
            Request::Run { scope, options } => self.run(scope, options),
            Request::Chat { options } => self.chat(options),
            Request::Generate { mode, options } => self.generate(mode, options),
            Request::Merge { task, target, accept } => self.merge(task, target, accept),
            Request::StopRun { run } => self.stop_run(run),
            Request::StopAll => {
                self.stop_all();
                Ok(Accepted::default())
            }
            // The file is the source: a stop without it would leave the task's file and its life apart.
            Request::StopLife { reason: StopReason::DoneByHand, .. } => {
                Err(Refusal::new(ErrorKind::InvalidInput, "a task is marked done in its file"))
            }
            Request::StopLife { life, reason } => match self.ledger.life(life) {
                Some(_) => {
                    self.stop_life(life, reason);
                    Ok(accepted(life))
                }
                None => Err(Refusal::new(ErrorKind::NotFound, "there is no such life")),
            },
            Request::Resume { target } => self.resume_request(&target),
            Request::Equip { life, environment } => self.equip(life, environment),
            Request::Answer { life, question, asked, text } => {
                self.answer(life, (&question, asked.as_deref()), text)
            }
        }
    }

    fn run(&mut self, scope: Scope, options: RunOptions) -> Result<Accepted, Refusal> {
        for task in scope.named() {
            self.reserved.remove(&task);
        }
        if !scope.is_general() && scope.named().next().is_none() {
            return Err(Refusal::new(ErrorKind::InvalidInput, "no task is named"));
        }
        // Two would refine the same draft, and generate the same tasks.
        if scope == Scope::Wildfire && self.open_runs().any(|run| run.scope == Scope::Wildfire) {
            return Err(Refusal::new(ErrorKind::Busy, "wildfire is under way already"));
        }
        let note = options.note.clone();
        let brought = options.environment.clone().filter(|it| it.variables().is_some());
        if note.is_some() {
            if !matches!(scope, Scope::Task(_)) {
                return Err(Refusal::new(ErrorKind::InvalidInput, "one task is sent back at a time"));
            }
            let covered = self
                .ledger
                .lives
                .values()
                .filter(|it| it.subject.task().is_some_and(|task| scope.covers(task)));
            if let Some(life) =
                covered.into_iter().find(|life| !matches!(life.state, LifeState::Waiting { .. }))
            {
                return Err(cannot_send_back(life));
            }
        }
        // A request is an act of a person, so tasks that the automation gave up on may start again.
        self.parked.retain(|task| !scope.covers(*task));
        self.halt(false);
        self.unblock_untended();
        let id = RunId(self.ledger.last_run.0 + 1);
        let mut run = Run::new(id, scope.clone(), options, self.stamp());
        let covered: Vec<_> = self.unreported.keys().copied().filter(|task| scope.covers(*task)).collect();
        for task in covered {
            let is_ready = self.cards.get(&task).is_some_and(|card| card.status == TaskStatus::Ready);
            // A ready task gets a new ending from this run.
            if let Some(ending) = self.unreported.remove(&task).filter(|_| !is_ready) {
                run.endings.insert(task, ending);
            }
        }
        self.record(Change::Run(Box::new(run)));
        // Whatever they are at, they belong to this run from now on, and go on by themselves.
        let covered = |life: &Life| life.subject.task().is_some_and(|task| scope.covers(task));
        for life in self.ids(covered) {
            self.orphans.remove(&life);
        }
        // The person may have installed it by now, or have it in a PATH of their own.
        for life in self.ids(|life| covered(life) && life.state.lacks_agent()) {
            self.go_on(life);
        }
        let waiting = |life: &Life| covered(life) && matches!(life.state, LifeState::Waiting { .. });
        for life in self.ids(waiting) {
            self.change(life, |life| {
                // The person may have repaired the cause.
                life.fruitless = 0;
                life.options.note = note.clone().or(life.options.note.take());
                if life.state == (LifeState::Waiting { on: Wait::Resume }) {
                    life.state = LifeState::Waiting { on: Wait::Turn };
                }
            });
        }
        // What its secrets went from gets those of this request.
        if let Some(brought) = brought {
            for life in self.ids(|life| covered(life) && life.state.lacks_variables()) {
                self.change(life, |life| life.options.environment = Some(brought.clone()));
                self.go_on(life);
            }
        }
        Ok(Accepted { run: Some(id), life: None })
    }

    fn chat(&mut self, options: RunOptions) -> Result<Accepted, Refusal> {
        // Two chats would write the same root at the same time.
        if self.ledger.lives.values().any(|life| life.subject == Subject::Chat) {
            return Err(Refusal::new(ErrorKind::Busy, "a chat is open already"));
        }
        let life = self.begin(Subject::Chat, None, options);
        // Started at once: a chat holds no slot, and `admit` starts only tasks and steps.
        self.start(life);
        Ok(accepted(life))
    }

    fn generate(&mut self, mode: Mode, options: RunOptions) -> Result<Accepted, Refusal> {
        let subject = match mode {
            Mode::GenerateDefinition => Subject::GenerateDefinition,
            Mode::GenerateTasks => Subject::GenerateTasks,
            _ => return Err(Refusal::new(ErrorKind::InvalidInput, "nothing is generated in this mode")),
        };
        if self.ledger.lives.values().any(|life| life.subject == subject) {
            return Err(Refusal::new(ErrorKind::Busy, "it is being generated already"));
        }
        // Started as soon as a slot is free.
        Ok(accepted(self.begin(subject, None, options)))
    }

    fn merge(&mut self, task: TaskNumber, target: String, accept: Accept) -> Result<Accepted, Refusal> {
        match self.ledger.life_of(task).map(|life| (life.id, &life.state)) {
            Some((id, LifeState::Held { .. } | LifeState::Incomplete { .. })) => {
                // A held merge that was verified is for its own target.
                self.change(id, |life| {
                    life.options.accept = life.options.accept.or(accept);
                    if matches!(life.state, LifeState::Held { candidate: None, .. }) {
                        life.target = Some(target);
                    }
                });
                self.retry_held(id);
                Ok(accepted(id))
            }
            Some(_) => Err(Refusal::new(ErrorKind::Busy, "an agent or a merge is under way for the task")),
            None => {
                let options = RunOptions { merge: Some(true), accept, ..RunOptions::default() };
                let id = self.begin(Subject::Task { task }, None, options);
                self.change(id, |life| {
                    // The caller has read the file, which claims success; the board may be older.
                    life.claimed = true;
                    life.target = Some(target);
                });
                self.enqueue(id);
                Ok(accepted(id))
            }
        }
    }

    fn resume_request(&mut self, target: &ResumeTarget) -> Result<Accepted, Refusal> {
        let resumed = self.resume_target(target)?;
        self.halt(false);
        Ok(resumed)
    }

    fn resume_target(&mut self, target: &ResumeTarget) -> Result<Accepted, Refusal> {
        match target {
            ResumeTarget::Backend(backend) => {
                self.unblock(backend);
                // Lives with a session, too: `unblock` leaves those to the reports of their agents.
                let limited = |life: &Life| {
                    matches!(life.state, LifeState::Limited { .. }) && life.backend.as_ref() == Some(backend)
                };
                self.ids(limited).into_iter().for_each(|life| self.resume(life));
                Ok(Accepted::default())
            }
            ResumeTarget::All => {
                let blocked: Vec<_> = self.ledger.blocked.keys().cloned().collect();
                blocked.iter().for_each(|backend| self.unblock(backend));
                let waits = |life: &Life| {
                    matches!(life.state, LifeState::Limited { .. } | LifeState::Waiting { on: Wait::Resume })
                        || life.state.lacks_variables()
                };
                self.ids(waits).into_iter().for_each(|life| self.resume(life));
                Ok(Accepted::default())
            }
            ResumeTarget::Life(id) => {
                let Some(life) = self.live(*id) else {
                    return Err(Refusal::new(ErrorKind::NotFound, "there is no such life under way"));
                };
                match &life.state {
                    LifeState::Limited { .. } => {
                        // Otherwise its next session would wait for the blocked backend again.
                        if let Some(backend) = life.backend.clone() {
                            self.unblock(&backend);
                        }
                        self.resume(*id);
                    }
                    LifeState::Waiting { .. } | LifeState::Asking { .. } => self.resume(*id),
                    // Tried again periodically anyway; the person need not wait for that.
                    LifeState::Held { .. } | LifeState::Incomplete { .. } => self.retry_held(*id),
                    _ => return Err(Refusal::new(ErrorKind::Busy, "it is under way already")),
                }
                Ok(accepted(*id))
            }
        }
    }

    fn equip(&mut self, id: LifeId, environment: CallerEnvironment) -> Result<Accepted, Refusal> {
        if self.live(id).is_none() {
            return Err(Refusal::new(ErrorKind::NotFound, "there is no such life under way"));
        }
        self.change(id, |life| life.options.environment = Some(environment));
        Ok(accepted(id))
    }

    /// Continues a life at a person's request: in its session if it has one, else with a new attempt.
    fn resume(&mut self, id: LifeId) {
        self.orphans.remove(&id);
        self.go_on(id);
    }

    /// Continues a life that is limited, asks, waits or is held: in its session if it has one, else with a new attempt or merge.
    pub(in crate::schedule) fn go_on(&mut self, id: LifeId) {
        let Some(life) = self.live(id) else { return };
        match (&life.state, life.session.is_some()) {
            (LifeState::Limited { .. } | LifeState::Asking { .. }, true) => {
                self.set(id, LifeState::Running);
                self.command(Command::Continue(id));
            }
            (LifeState::Limited { .. } | LifeState::Asking { .. } | LifeState::Waiting { .. }, false) => {
                self.rest(id);
            }
            (LifeState::Held { .. }, _) => self.retry_held(id),
            _ => {}
        }
    }

    fn answer(
        &mut self,
        id: LifeId,
        (question, words): (&str, Option<&str>),
        text: String,
    ) -> Result<Accepted, Refusal> {
        let Some(life) = self.ledger.life(id) else {
            return Err(Refusal::new(ErrorKind::NotFound, "there is no such life"));
        };
        let open = match &life.state {
            LifeState::Asking { questions } => questions.as_slice(),
            _ => &[],
        };
        // A later session may use the id of an earlier question for another one, so only open questions
        // count.
        let is_meant = |id: &str, asked: &str| id == question && words.is_none_or(|words| words == asked);
        let Some(asked) = open.iter().find(|asked| is_meant(&asked.id, &asked.question)) else {
            let given = life.answers.iter().rev().find(|given| is_meant(&given.id, &given.question));
            return match given {
                // Repeated by a caller that did not see the first reply.
                Some(given) if given.text == text => Ok(accepted(id)),
                Some(_) => {
                    Err(Refusal::new(ErrorKind::AlreadyAnswered, "the question has another answer already"))
                }
                None => Err(Refusal::new(
                    ErrorKind::NotFound,
                    "the agent does not ask this question, or no longer",
                )),
            };
        };
        let mut answer = Answer::new(&asked.id, &asked.question, text);
        // Decides where the answer goes: into this session now, or into the prompt of the next one.
        answer.session = life.session.as_ref().map(|session| session.id.clone());
        let left: Vec<_> = open.iter().filter(|other| other.id != question).cloned().collect();
        let has_session = answer.session.is_some();
        // The answer is a person's word that the life may go on.
        self.orphans.remove(&id);
        self.change(id, |life| {
            life.answers.push(answer);
            life.state = match (left.is_empty(), has_session) {
                (false, _) => LifeState::Asking { questions: left },
                (true, true) => LifeState::Running,
                (true, false) => LifeState::Waiting { on: Wait::Turn },
            };
        });
        // After the change, whose answer the command looks up in the ledger.
        if has_session {
            self.command(Command::Deliver(id, question.to_owned()));
        }
        Ok(accepted(id))
    }
}

fn accepted(life: LifeId) -> Accepted {
    Accepted { run: None, life: Some(life) }
}

/// Digests a request with FNV-1a, which is stable across versions of this program.
fn digest(mut request: Request) -> u64 {
    // A chat that goes on has the agent and the place of before. They are not looked up again for a repeated request.
    if let Request::Chat { options } = &mut request
        && options.resume.is_some()
    {
        (options.agent, options.place) = (None, ChatPlace::default());
    }
    let text = serde_json::to_vec(&request).unwrap_or_default();
    text.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Refuses to send back work that is not over, and names what does instead.
fn cannot_send_back(life: &Life) -> Refusal {
    let instead = match life.state {
        LifeState::Asking { .. } => "answer its question",
        LifeState::Held { .. } | LifeState::Incomplete { .. } => "set it to draft first",
        LifeState::Starting | LifeState::Running => "send its agent the text",
        _ => "wait until it has ended",
    };
    let message = format!("the task is {}, and cannot be sent back: {instead}", life.state.word());
    Refusal::new(ErrorKind::Busy, message)
}
