//! Transitional.
use crate::run;
use crate::sample::Sample;
use crate::side::Side;
use crate::subject::Subject;
use crate::verdict::NoiseFloor;
use crate::study::Progress;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) fn interleave(
    subjects: &mut Vec<Box<dyn Subject>>,
    options: &run::Options,
    _: &mut dyn FnMut(Progress),
) -> anyhow::Result<Vec<Sample>> {
    let sides: Vec<Side> = subjects.drain(..).map(|subject| {
        let id = subject.id().to_owned();
        let subject = Rc::new(RefCell::new(subject));
        Side::new(id.clone(), move || {
            let subject = Rc::clone(&subject);
            Ok(crate::subject::from_fn(id.clone(), move || subject.borrow_mut().trial()))
        })
    }).collect();
    run::interleave(&sides, options)
}
pub(crate) fn floor(subject: Box<dyn Subject>, options: &run::Options) -> anyhow::Result<NoiseFloor> {
    let samples = interleave(&mut vec![subject], options, &mut |_| ())?;
    Ok(NoiseFloor::of(&samples[0], &samples[0])?)
}
/// Says how far a study is, part by part.
pub(crate) struct Steps<'a> {
    done: usize,
    total: usize,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Steps<'a> {
    pub(crate) fn new(total: usize, tell: &'a mut dyn FnMut(Progress)) -> Steps<'a> {
        Steps { done: 0, total, tell }
    }

    /// The next part begins.
    pub(crate) fn next(&mut self, what: &str) {
        (self.tell)(Progress { done: self.done.min(self.total), total: self.total, what: what.to_owned() });
        self.done += 1;
    }
}
