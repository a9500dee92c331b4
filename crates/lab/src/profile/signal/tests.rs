use super::super::modules::mapped;
use super::*;
use crate::profile::modules::Modules;
use crate::profile::tests::patiently;
use std::time::Duration;

const SETTINGS: Settings = Settings { period_ns: 1_000_000, ring_words: 4096, source: Source::ThreadTimers };

/// Uses the processor for `ms` milliseconds, without a system call that could set errno.
fn burn(ms: u64) {
    let start = os::thread_cpu_ns();
    while os::thread_cpu_ns() - start < ms * 1_000_000 {
        std::hint::black_box((0..2000u64).fold(1, |a: u64, b| a.wrapping_mul(b | 1)));
    }
}

fn begin(settings: Settings) -> Sampled {
    install(|| Modules::read(&mapped()).unwinding()).unwrap();
    Sampled::begin(settings).expect("tests have threads of their own")
}

fn drained(recorder: &Recorder) -> Vec<Vec<u64>> {
    let (mut all, mut record) = (Vec::new(), Vec::new());
    while recorder.ring.pop(&mut record) {
        all.push(record.clone());
    }
    all
}

#[test]
fn samples_come_at_about_their_rate_and_their_weights_sum_to_the_threads_time() {
    let sampled = begin(SETTINGS);
    burn(200);
    let recorder = sampled.recorder().clone();
    drop(sampled);
    let records = drained(&recorder);
    let weight: u64 = records.iter().map(|record| record[0]).sum();
    assert_eq!(records.len() as u64, recorder.taken.load(Ordering::Relaxed));
    assert!((20..=410).contains(&records.len()), "{}: 200 where nothing else runs", records.len());
    assert!(weight <= recorder.used_ns(), "{weight} of {}", recorder.used_ns());
    assert!(weight * 10 >= recorder.used_ns() * 9, "{weight} of {}", recorder.used_ns());
    assert!(recorder.handler_ns.load(Ordering::Relaxed) > 0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_callers_of_an_interrupted_function_are_walked() {
    let sampled = begin(SETTINGS);
    burn(100);
    let recorder = sampled.recorder().clone();
    drop(sampled);
    let depths: Vec<usize> = drained(&recorder).iter().map(|record| record.len() - RECORD_HEAD).collect();
    let deep = depths.iter().filter(|depth| **depth >= 4).count();
    assert!(deep * 10 >= depths.len() * 9, "burn, the test, the harness, the thread: {depths:?}");
    assert!(depths.iter().all(|depth| *depth <= DEPTH_MAX));
}

#[test]
fn dropped_samples_are_counted_with_their_time() {
    patiently(|| {
        let sampled = begin(Settings { ring_words: 128, ..SETTINGS });
        burn(300);
        let recorder = sampled.recorder().clone();
        drop(sampled);
        let (taken, dropped) = (recorder.taken.load(Ordering::Relaxed), recorder.dropped.load(Ordering::Relaxed));
        // A record has at least two words, here mostly about 20, with the callers.
        assert!((1..=64).contains(&taken) && dropped >= 5, "{taken} taken, {dropped} dropped: nobody read");
        let weight: u64 = drained(&recorder).iter().map(|record| record[0]).sum();
        let lost = recorder.dropped_ns.load(Ordering::Relaxed);
        assert!(weight + lost <= recorder.used_ns() && (weight + lost) * 10 >= recorder.used_ns() * 9);
    });
}

#[test]
fn a_sleeping_thread_is_not_sampled_until_it_wakes() {
    patiently(|| {
        let sampled = begin(SETTINGS);
        let recorder = sampled.recorder();
        burn(20);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!recorder.ticking.load(Ordering::Relaxed), "the metronome found it asleep and stopped");
        let before = recorder.taken.load(Ordering::Relaxed);
        burn(100);
        let after = recorder.taken.load(Ordering::Relaxed);
        assert!(after >= before + 10, "{before} to {after}");
    });
}

#[test]
fn the_process_timer_replaces_missing_thread_timers() {
    let sampled = begin(Settings { source: Source::ProcessTimer, ..SETTINGS });
    assert!(!sampled.recorder().has_timers());
    // Another thread of this process may receive the signal instead.
    let start = std::time::Instant::now();
    while sampled.recorder().taken.load(Ordering::Relaxed) < 3 && start.elapsed() < Duration::from_secs(20) {
        burn(50);
    }
    process_timer(0);
    assert!(sampled.recorder().taken.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_handler_leaves_errno_as_it_was() {
    let sampled = begin(Settings { period_ns: 200_000, ..SETTINGS });
    assert!(std::fs::File::open("/nonexistent/file").is_err()); // ENOENT
    for _ in 0..20 {
        burn(5);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
    }
    assert!(sampled.recorder().taken.load(Ordering::Relaxed) > 5);
}

#[test]
fn a_thread_has_one_recorder_and_a_closed_recorder_takes_no_samples() {
    let sampled = begin(SETTINGS);
    assert!(Sampled::begin(SETTINGS).is_none(), "it is sampled already");
    burn(20);
    sampled.recorder().close();
    burn(5);
    let before = sampled.recorder().taken.load(Ordering::Relaxed);
    burn(30);
    assert_eq!(sampled.recorder().taken.load(Ordering::Relaxed), before);
    drop(sampled);
    drop(Sampled::begin(SETTINGS).expect("and now it is not"));
}
