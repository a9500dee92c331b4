use super::*;
use crate::Time;
use crate::flow::tests::udp;
use crate::run::RunError;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Vec<u8>>>>, bool);

impl Sink for Seen {
    fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        if self.1 {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        self.0.lock().unwrap().extend(frames.iter().map(|(bytes, _)| bytes.to_vec()));
        Ok(())
    }
}

fn two() -> (Vec<Target>, Seen, Seen) {
    let (a, b) = (Seen::default(), Seen::default());
    (vec![Target::new("a", Box::new(a.clone())), Target::new("b", Box::new(b.clone()))], a, b)
}

fn of(list: &[Vec<u8>]) -> Frames {
    let mut frames = Frames::new();
    list.iter().for_each(|frame| assert!(frames.push(frame, Time::None)));
    frames
}

#[test]
fn mirror_copies_to_each_and_skips_failed_targets() {
    let (mut targets, a, _) = two();
    targets.push(Target::new("c", Box::new(Seen(Arc::default(), true))));
    let mut stage = Mirror::new(targets);
    let list = [udp(1, 2, 3, 4), udp(5, 6, 7, 8)];
    for _ in 0..2 {
        let mut frames = of(&list);
        stage.run(&mut frames).unwrap();
        assert_eq!(frames.len(), 2);
    }
    assert_eq!(*a.0.lock().unwrap(), [&list[..], &list].concat());
    let said = stage.report().unwrap();
    assert!(
        said.starts_with("mirror a: 4 frames\nmirror b: 4 frames\nmirror c: 0 frames, 4 lost: broken pipe"),
        "{said}"
    );
}

#[test]
fn round_robin_includes_the_pipeline() {
    let (mut targets, a, b) = two();
    targets.insert(0, Target::row());
    let mut stage = Split::new(targets, By::Round, Key::random());
    let list: Vec<Vec<u8>> = (0..9).map(|n| udp(n, 1, 1, 1)).collect();
    let mut frames = of(&list);
    stage.run(&mut frames).unwrap();
    let here: Vec<&[u8]> = frames.iter().map(|(bytes, _)| bytes).collect();
    assert_eq!(here, [&list[0], &list[3], &list[6]]);
    assert_eq!(a.0.lock().unwrap()[..], [list[1].clone(), list[4].clone(), list[7].clone()]);
    assert_eq!(b.0.lock().unwrap().len(), 3);
    assert_eq!(stage.report().unwrap(), "split -: 3 frames\nsplit a: 3 frames\nsplit b: 3 frames");
}

#[test]
fn both_directions_of_a_flow_share_a_target() {
    for seed in 0..50 {
        let (targets, a, b) = two();
        let mut stage = Split::new(targets, By::BothWays, Key::of_seed(seed));
        stage.run(&mut of(&[udp(1, 7, 2, 9), udp(2, 9, 1, 7)])).unwrap();
        assert_eq!(a.0.lock().unwrap().len() % 2 + b.0.lock().unwrap().len() % 2, 0);
    }
}

#[test]
fn split_fails_without_working_targets() {
    let mut stage = Split::new(vec![Target::new("a", Box::new(Seen(Arc::default(), true)))], By::Flow, Key::random());
    assert!(matches!(stage.run(&mut of(&[udp(1, 2, 3, 4)])), Err(StageError::Io(_))));
}

proptest! {
    /// No frame is lost or duplicated, and frames with the same key go to one target in order.
    #[test]
    fn every_frame_goes_to_one_target(list in prop::collection::vec(prop::collection::vec(0..4_u8, 14..80), 0..40), seed: u64) {
        for by in [By::Flow, By::BothWays, By::Dst, By::Src, By::Vlan, By::Round] {
            let (targets, a, b) = two();
            let mut stage = Split::new(targets, by, Key::of_seed(seed));
            let mut frames = of(&list);
            stage.run(&mut frames).unwrap();
            prop_assert!(frames.is_empty());
            let (a, b) = (a.0.lock().unwrap().clone(), b.0.lock().unwrap().clone());
            prop_assert_eq!(a.len() + b.len(), list.len());
            if by == By::Dst {
                let theirs = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame[..6].to_vec()).collect::<std::collections::HashSet<_>>();
                prop_assert!(theirs(&a).is_disjoint(&theirs(&b)));
            }
            let mut rest = [a.iter(), b.iter()];
            for frame in &list {
                let at = rest.iter().position(|frames| frames.as_slice().first() == Some(frame));
                prop_assert!(at.is_some_and(|at| rest[at].next().is_some()));
            }
        }
    }
}
