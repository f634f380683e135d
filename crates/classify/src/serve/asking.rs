//! Asking stages about rows that are ready: here, on threads of our own, or elsewhere.

use engine::flow::States;
use packet::must;

use super::elsewhere::{Answering, StageOutcome};
use super::{Classifier, Clock, ROWS_MAX, Standing, TakeVerdicts};
use crate::verdict::Cause;

impl<C: Clock, O: TakeVerdicts> Classifier<C, O> {
    /// Asks about all rows that are ready. Answers make rows ready for later stages only; those
    /// that come while room is waited for are asked about the next time.
    pub(super) fn ask(&mut self, states: &mut States<'_, Standing>) {
        self.hear(false, states);
        for stage in 0..self.ready.len() {
            let Some(mut ready) = self.ready.get_mut(stage).map(std::mem::take) else { return };
            if stage > 0 && self.answering.is_some() {
                ready.iter().for_each(|&place| self.send(place, stage, states));
            } else {
                for places in ready.chunks(ROWS_MAX) {
                    self.ask_stage(stage, places);
                    for (answer, &place) in (0..).zip(places) {
                        if let Some(&answer) = self.answers.get(answer) {
                            self.on_answer(place, stage, answer, states);
                        }
                    }
                }
            }
            if let Some(since) = self.ready.get_mut(stage) {
                ready.clear();
                ready.append(since);
                *since = ready;
            }
        }
        if let Some(answering) = &mut self.answering {
            answering.flush();
        }
    }

    /// Asks until nothing is under way.
    pub(super) fn settle(&mut self, states: &mut States<'_, Standing>) {
        self.ask(states);
        while !self.is_settled() {
            self.hear(true, states);
            self.ask(states);
        }
    }

    /// Whether nothing is under way, and nothing waits to be.
    fn is_settled(&self) -> bool {
        let Some(answering) = &self.answering else { return true };
        answering.is_idle() && self.ready.iter().all(Vec::is_empty)
    }

    /// Sends a row to who computes the stage. Where there is no room and it cannot be waited for,
    /// the answer before stands; there is one, since the first stage is asked here.
    fn send(&mut self, place: u32, stage: usize, states: &mut States<'_, Standing>) {
        let is_live = self.options.is_live;
        while !is_live && self.answering.as_ref().is_some_and(Answering::is_full) {
            self.hear(true, states);
        }
        let Self { undecided, cascade, answering: Some(answering), counts, options, .. } = self
        else {
            return;
        };
        let Some(flow) = undecided.get_mut(place) else { return };
        if answering.ask(cascade, flow, (place, stage), !options.is_live) {
            let name = cascade.stages.get(stage).map(|stage| stage.name as usize);
            if let Some(count) = name.and_then(|name| counts.asked.get_mut(name)) {
                *count += 1;
            }
            return;
        }
        let is_elsewhere = answering.is_elsewhere();
        flow.is_asked = false;
        self.decide(place, if is_elsewhere { Cause::Unanswered } else { Cause::Full }, states);
    }

    /// Takes in the outcomes of rows that were sent.
    fn hear(&mut self, waits: bool, states: &mut States<'_, Standing>) {
        let Some(answering) = &mut self.answering else { return };
        let mut answered = std::mem::take(&mut self.answered);
        answering.take(waits, &mut answered);
        for StageOutcome { place, stage, answer } in answered.drain(..) {
            if self.undecided.get(place).is_some_and(|flow| flow.is_given_up) {
                self.undecided.release(place);
                continue;
            }
            match answer {
                Some(answer) => self.on_answer(place, stage, answer, states),
                None => self.on_silence(place, states),
            }
        }
        self.answered = answered;
    }

    /// No answer will come.
    fn on_silence(&mut self, place: u32, states: &mut States<'_, Standing>) {
        if let Some(flow) = self.undecided.get_mut(place) {
            flow.is_asked = false;
            self.decide(place, Cause::Unanswered, states);
        }
    }

    fn ask_stage(&mut self, index: usize, places: &[u32]) {
        let Self { cascade, undecided, asking, answers, memory, counts, .. } = self;
        let (Some(stage), Some(asking)) = (cascade.stages.get(index), asking.get_mut(index)) else {
            return;
        };
        for &place in places {
            if let Some(flow) = undecided.get(place) {
                asking.push(stage, &flow.packets, flow.evidence(index));
            }
        }
        if let Some(count) = counts.asked.get_mut(stage.name as usize) {
            *count += asking.len() as u64;
        }
        answers.clear();
        let mix = |row: usize, probabilities: &mut [f64]| {
            let Some(memory) = memory else { return };
            let flow = places.get(row).and_then(|&place| undecided.get_mut(place));
            let Some(flow) = must(flow, "a flow that is asked about is kept") else { return };
            flow.own.clear();
            flow.own.extend_from_slice(probabilities);
            memory.mix(flow.source(), flow.first, probabilities);
        };
        let failure = asking.answer_beside(stage, mix, |answer| answers.push(answer));
        if let Some(failure) = failure {
            counts.failures.note(stage.name, failure);
        }
    }
}
