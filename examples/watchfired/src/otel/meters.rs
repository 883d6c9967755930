//! The metrics.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, MeterProvider, UpDownCounter};
use watchfire_core::backend::Usage;

/// The instruments.
pub(super) struct Meters {
    pub(super) sessions: UpDownCounter<i64>,
    pub(super) tasks: Counter<u64>,
    pub(super) merges: Counter<u64>,
    tokens: Counter<u64>,
    cost: Counter<f64>,
}

impl Meters {
    pub(super) fn new(provider: &impl MeterProvider) -> Self {
        let meter = provider.meter("watchfire");
        let counter = |name, unit, description| {
            meter.u64_counter(name).with_unit(unit).with_description(description).build()
        };
        Self {
            sessions: meter
                .i64_up_down_counter("watchfire.sessions")
                .with_unit("{session}")
                .with_description("Sessions of agents that run")
                .build(),
            tasks: counter("watchfire.tasks", "{task}", "Lives of tasks that have ended"),
            merges: counter("watchfire.merges", "{merge}", "Work that has left the merge queue"),
            tokens: counter(
                "watchfire.tokens",
                "{token}",
                "Tokens that agents reported, at the end of each session",
            ),
            cost: meter
                .f64_counter("watchfire.cost")
                .with_unit("{USD}")
                .with_description("Cost of sessions whose prices are known")
                .build(),
        }
    }

    /// Counts what a session has used, with its cost in millionths of a US dollar.
    pub(super) fn usage(&self, of: &[KeyValue], usage: Usage, micros: Option<u64>) {
        let kinds = [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ];
        for (kind, tokens) in kinds.into_iter().filter(|(_, tokens)| *tokens > 0) {
            self.tokens.add(tokens, &[of, &[KeyValue::new("watchfire.token.kind", kind)]].concat());
        }
        if let Some(micros) = micros {
            #[expect(
                clippy::cast_precision_loss,
                reason = "2^53 millionths are nine thousand million dollars"
            )]
            self.cost.add(micros as f64 / 1e6, of);
        }
    }
}
