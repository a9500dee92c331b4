//! Forms of commands, and the selection of the form that matches the words of a command.

use crate::error::similar;
use crate::pattern::{Pattern, With, either, kind_of};
use crate::{Args, CommandError, Words};

/// A form of a command, such as `static IF MAC [vlan 1-4094]`, with its description and function.
#[derive(Clone, Copy, Debug)]
pub struct Form<F> {
    /// Elements of the form, as in a manual page: see the crate's documentation.
    pub grammar: &'static str,
    /// Description: a sentence without a subject, such as `Adds a port.`
    pub about: &'static str,
    /// Function that carries out the command.
    pub run: F,
}

/// Consumes the words of one command. Returns the form that they match, and the values in them.
/// Words after the command remain in `words`.
///
/// # Errors
/// A word is unknown, invalid or missing.
pub fn parse<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    words: &mut Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, .. } = select(forms, words, &[])?;
    Ok((form, pattern.take_all(form.grammar, words)?.0))
}

/// Parses as [`parse`] does, and requires that no further words follow.
///
/// # Errors
/// A word is unknown, invalid or missing, or words follow after the command.
pub fn parse_all<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    mut words: Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, beside } = select(forms, &words, &[])?;
    let (args, options) = pattern.take_all(form.grammar, &mut words)?;
    if let Some(extra) = words.peek() {
        let is_after_lead = args.words().len() == pattern.lead();
        let beside = if is_after_lead { beside } else { Vec::new() };
        let possible = [options, beside].concat();
        return Err(match possible.is_empty() {
            true => CommandError::too_much(extra),
            false => CommandError::unknown(kind_of(extra), extra, possible.into_iter()),
        });
    }
    Ok((form, args))
}

/// A form and the values of the words that match it.
pub type Matched<'f, 'w, F> = (&'f Form<F>, Args<'w>);

/// Parses commands that follow each other, up to the end of the words.
///
/// # Errors
/// A word is unknown, invalid or missing.
pub fn parse_sequence<'f, 'w, F: 'f>(
    forms: impl IntoIterator<Item = &'f Form<F>> + Clone,
    mut words: Words<'w>,
) -> Result<Vec<Matched<'f, 'w, F>>, CommandError> {
    let (mut all, mut options) = (Vec::new(), Vec::new());
    while words.peek().is_some() {
        let Selected { form, pattern, .. } = select(forms.clone(), &words, &options)?;
        let (args, after) = pattern.take_all(form.grammar, &mut words)?;
        options = after;
        all.push((form, args));
    }
    Ok(all)
}

/// The form that was selected for a command. All its leading fixed words match the command, and no
/// other matching form has more of them.
struct Selected<'f, F> {
    form: &'f Form<F>,
    pattern: Pattern,
    /// Fixed words that other forms accept after the matched fixed words.
    beside: Vec<&'static str>,
}

/// Selects the form for the next words. `options` are words that could also continue the previous
/// command; they are listed in an error message.
fn select<'f, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    words: &Words<'_>,
    options: &[&'static str],
) -> Result<Selected<'f, F>, CommandError> {
    let mut best: Vec<(&Form<F>, Pattern)> = Vec::new();
    let mut lead_of_best = 0;
    let (mut deepest, mut expected) = (0, Vec::new());
    for form in forms {
        let pattern = Pattern::of(form.grammar);
        let (lead, matched) = (pattern.lead(), pattern.lead_matched(words.rest()));
        if matched == lead {
            if lead > lead_of_best {
                (lead_of_best, best) = (lead, Vec::new());
            }
            if lead == lead_of_best {
                best.push((form, pattern));
            }
            continue;
        }
        if matched > deepest {
            (deepest, expected) = (matched, Vec::new());
        }
        if matched == deepest {
            add(&mut expected, pattern.lead_words(matched));
        }
    }
    if best.is_empty() || lead_of_best < deepest {
        if deepest == 0 {
            add(&mut expected, options.to_vec());
        }
        return Err(no_form(words, deepest, &expected, Vec::new()));
    }
    let next = words.rest().get(lead_of_best).copied();
    let beside = if lead_of_best == deepest { expected } else { Vec::new() };
    let at = best.iter().position(|(_, pattern)| pattern.fits(next));
    // A word similar to a fixed word of another form is reported as misspelt, not as a bad value.
    let is_misspelt = next.is_none_or(|word| similar(word, &beside).is_some());
    if at.is_none() && (best.len() > 1 || is_misspelt && !beside.is_empty()) {
        let (mut expected, mut values) = (Vec::new(), Vec::new());
        for (_, pattern) in &best {
            add(&mut expected, pattern.next_words());
            values.extend(pattern.next_value());
        }
        add(&mut expected, beside);
        return Err(no_form(words, lead_of_best, &expected, values));
    }
    let (form, pattern) = best.swap_remove(at.unwrap_or(0));
    Ok(Selected { form, pattern, beside })
}

/// Appends to `to` those `words` that it does not contain yet.
fn add(to: &mut Vec<&'static str>, words: Vec<&'static str>) {
    for word in words {
        if !to.contains(&word) {
            to.push(word);
        }
    }
}

/// Returns the error for a command that matches no form: either its word at index `at` is wrong, or
/// the command ends before this index. `expected` contains the fixed words that would match,
/// `values` the descriptions of the values that would match.
fn no_form(words: &Words<'_>, at: usize, expected: &[&'static str], values: Vec<String>) -> CommandError {
    match words.rest().get(at) {
        Some(found) => CommandError::unknown(kind_of(found), found, expected.iter().copied()),
        None => {
            let mut at_end = *words;
            while at_end.take().is_some() {}
            let words = expected.iter().map(|word| word.to_string());
            at_end.missing(&either(&values.into_iter().chain(words).collect::<Vec<_>>()))
        }
    }
}

/// Returns the grammars of the forms that cannot be reached. This is the case if an example command
/// of the form, without options or with all of them, selects another form or does not parse. Used
/// in tests of tables of forms.
pub fn unreachable<F>(forms: &[&Form<F>]) -> Vec<&'static str> {
    let is_reached = |form: &Form<F>, options| {
        let example = Pattern::of(form.grammar).example(options);
        let words: Vec<&str> = example.iter().map(String::as_str).collect();
        let parsed = parse_all(forms.iter().copied(), Words::new(&words));
        parsed.is_ok_and(|(found, _)| found.grammar == form.grammar)
    };
    let is_unreachable =
        |form: &&&Form<F>| [With::None, With::All].into_iter().any(|options| !is_reached(form, options));
    forms.iter().filter(is_unreachable).map(|form| form.grammar).collect()
}
