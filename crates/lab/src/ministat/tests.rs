//! Golden tests: the example of the manual page, and the output that the report netisr2005 (Robert
//! Watson) contains.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::*;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ministat").join(name)
}

/// Runs with `args` and returns status, standard output and standard error. An argument that names
/// a golden file is replaced by its path.
fn ministat_with(args: &[&str], stdin: &[u8]) -> (u8, String, String) {
    let path = |word: &str| if golden(word).is_file() { golden(word).into_os_string() } else { word.into() };
    let args: Vec<OsString> = args.iter().map(|word| path(word)).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = run(&args, 74, &mut Streams::with_stdin(stdin.to_vec()), &mut out, &mut err);
    let directory = format!("{}/", golden("").display()).replace("//", "/");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&directory, "");
    (status, text(out), text(err))
}

fn ministat(args: &[&str]) -> String {
    let (status, out, err) = ministat_with(args, b"");
    assert_eq!((status, err.as_str()), (0, ""));
    out
}

#[test]
fn the_manual_pages_example() {
    let expected = fs::read_to_string(golden("manual.txt")).unwrap();
    assert_eq!(ministat(&["-s", "-w", "60", "iguana", "chameleon"]), expected);
    let expected = fs::read_to_string(golden("manual-80.txt")).unwrap();
    assert_eq!(ministat(&["-s", "-w", "60", "-c", "80", "iguana", "chameleon"]), expected);
}

#[test]
fn the_netisr_reports_block() {
    let expected = fs::read_to_string(golden("netisr2005.txt")).unwrap();
    assert_eq!(ministat(&["netisr2005-queued", "netisr2005-direct"]), expected);
}

#[test]
fn the_netisr_reports_test_from_its_summary_alone() {
    let moments = |mean, deviation: f64| Moments { n: 10, mean, variance: deviation * deviation };
    let sentence = relative(&moments(6124.1, 31.606785), &moments(5456.3, 26.284977), student::DEFAULT_LEVEL);
    assert_eq!(
        sentence,
        "Difference at 95.0% confidence\n\t667.8 +/- 27.3121\n\t12.2391% +/- 0.500561%\n\t(Student's t, pooled s = 29.0679)\n"
    );
}

#[test]
fn columns_comments_and_delimiters() {
    let (status, out, _) = ministat_with(&["-d", ",", "-C", "2", "-n"], b"5, 6\n7 ,8\n\n#1\n9,10\r\n3\n4,#4\n");
    assert_eq!(status, 0);
    assert!(out.ends_with("x   3             6            10             8             8             2\n"), "{out}");
}

#[test]
fn statistics_without_test_or_plot() {
    assert!(!ministat(&["-n", "iguana", "chameleon"]).contains("difference"));
    assert!(!ministat(&["-A", "iguana", "chameleon"]).contains("+--"));
    assert!(ministat(&["-A", "iguana", "chameleon"]).contains("No difference proven"));
}

#[test]
fn complaints() {
    let complaint = |args: &[&str], stdin: &str| {
        let (status, out, err) = ministat_with(args, stdin.as_bytes());
        assert_eq!(out, "");
        (status, err.lines().next().unwrap_or_default().to_owned())
    };
    let says = |status: u8, text: &str| (status, text.to_owned());
    assert_eq!(complaint(&["-q"], ""), says(2, "ministat: invalid option -- 'q'"));
    assert_eq!(complaint(&["-w"], ""), says(2, "ministat: option requires an argument -- 'w'"));
    assert_eq!(complaint(&["-w", "-1"], ""), says(2, "Unable to move beyond left margin."));
    assert_eq!(complaint(&["-w", "6x"], ""), says(2, "Invalid width, not a number."));
    assert_eq!(complaint(&["-w", "2000000"], ""), says(2, "Invalid width, too wide."));
    assert_eq!(complaint(&["-c", "50"], ""), says(2, "No support for confidence level"));
    assert_eq!(complaint(&["-c", "5O"], ""), says(2, "Not a floating point number"));
    assert_eq!(complaint(&["-C", "0"], ""), says(2, "Column number should be positive."));
    assert_eq!(complaint(&["-C1a"], ""), says(2, "Invalid column number."));
    assert_eq!(complaint(&["-d", ""], ""), says(2, "Can't use empty delimiter string"));
    assert_eq!(complaint(&["iguana"; 8], ""), says(2, "Too many datasets."));
    assert_eq!(complaint(&["absent"], ""), says(1, "ministat: Cannot open absent: No such file or directory"));
    assert_eq!(complaint(&[], "1\n2\n"), says(2, "Dataset <stdin> must contain at least 3 data points"));
    assert_eq!(complaint(&[], "1\n2x\n3\n"), says(2, "ministat: Invalid data on line 2 in <stdin>"));
    assert_eq!(complaint(&["-", "-"], "1\n2\n3\n"), says(2, "Dataset <stdin> must contain at least 3 data points"));
}

#[test]
fn inputs_that_crash_the_original_are_handled() {
    for (args, stdin) in [(["-w", "1"], "1\n2\n3\n"), (["-w", "0"], "1\n2\n3\n"), (["-w", "9"], "inf\n-inf\n1\n0\n")] {
        let (status, out, _) = ministat_with(&args, stdin.as_bytes());
        assert_eq!(status, 0);
        assert!(out.contains("Median"), "{out}");
    }
}

#[test]
fn the_table_is_student_and_ends_in_the_normal_distribution() {
    assert_eq!(student::critical(18, 2), 2.101);
    assert_eq!(student::critical(100, 0), 1.290);
    assert_eq!(student::critical(101, 2), 1.960);
    for level in 0..6 {
        assert!((2..=100).all(|n| student::critical(n, level) <= student::critical(n - 1, level)));
    }
}
