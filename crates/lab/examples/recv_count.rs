//! Counts.
use linerate_lab::rigs::RecvRig;
use linerate_lab::subject::Subject;
fn main() {
    let arg = |n: usize| std::env::args().nth(n).and_then(|a| a.parse::<u32>().ok());
    let mut rig = RecvRig::new("x.y", arg(1).unwrap()).unwrap();
    let mut all = Vec::new();
    for _ in 0..arg(2).unwrap() {
        let r = rig.trial().unwrap();
        all.push(r.ticks_per_op());
    }
    all.sort_by(f64::total_cmp);
    eprintln!("ticks min {:.1} median {:.1}", all[0], all[all.len() / 2]);
}
