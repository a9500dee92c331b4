use super::*;
use proptest::prelude::*;

#[test]
fn known_dates() {
    assert_eq!(http(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(http(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(http(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_eq!(http(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(ftp(784_111_777), "19941106084937");
    assert_eq!(ls(784_111_777, 784_111_777 + 60), "Nov  6 08:49");
    assert_eq!(ls(784_111_777, 784_111_777 + 200 * DAY_S), "Nov  6  1994");
    assert_eq!(ls(784_111_777, 0), "Nov  6  1994", "a file from the future");
}

#[test]
fn all_three_forms_are_read() {
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(parse_http(text), Some(784_111_777), "{text}");
    }
}

#[test]
fn invalid_dates_are_rejected() {
    for text in [
        "",
        " ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 31 Apr 1994 08:49:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:37:00 GMT",
        "Sun, 06 Nov 1994 +8:49:37 GMT",
        "Sun, 06-Nov-94-1 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "0",
    ] {
        assert_eq!(parse_http(text), None, "{text}");
    }
}

#[test]
fn wall_time_follows_now() {
    let wall = Wall(Duration::from_millis(1_500));
    assert_eq!(wall.unix_s(Instant::from_millis(499)), 1);
    assert_eq!(wall.unix_s(Instant::from_millis(500)), 2);
}

proptest! {
    #[test]
    fn formatted_dates_parse_back(unix_s in 0..=LATEST) {
        prop_assert_eq!(parse_http(&http(unix_s)), Some(unix_s));
        prop_assert_eq!(ftp(unix_s).len(), 14);
        prop_assert_eq!(ls(unix_s, LATEST).len(), 12);
    }

    #[test]
    fn any_text_is_parsed_without_panic(text in "\\PC{0,40}") {
        let _ = parse_http(&text);
    }
}
