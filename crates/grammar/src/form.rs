//! Forms of commands, and the selection of the form that a command's words match.

use crate::pattern::{Pattern, either, kind_of};
use crate::{Args, CommandError, Words};

/// A form of a command: its grammar, its description, and its function.
#[derive(Clone, Copy, Debug)]
pub struct Form<F> {
    /// Elements of the form, as in a manual page: see the crate's documentation.
    pub grammar: &'static str,
    /// Description: a sentence without a subject, such as `Adds a port.`
    pub about: &'static str,
    /// Function that carries out the command.
    pub run: F,
}

/// Consumes the words of one command. Returns the form that they match, and their values. Further
/// words remain in `words`.
///
/// # Errors
/// A word is unknown, invalid or missing.
pub fn parse<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    words: &mut Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, .. } = select(forms, words)?;
    Ok((form, pattern.take_all(form.grammar, words)?))
}

/// Parses as [`parse`] does, and requires that no further words follow.
///
/// # Errors
/// A word is unknown, invalid or missing, or words follow after the command.
pub fn parse_all<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    mut words: Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, beside } = select(forms, &words)?;
    let args = pattern.take_all(form.grammar, &mut words)?;
    if let Some(extra) = words.peek() {
        let is_after_lead = args.words().len() == pattern.lead();
        let beside = if is_after_lead { beside } else { Vec::new() };
        let possible = [pattern.option_words(), beside].concat();
        return Err(match possible.is_empty() {
            true => CommandError::too_much(extra),
            false => CommandError::unknown(kind_of(extra), extra, possible.into_iter()),
        });
    }
    Ok((form, args))
}

/// The form of which the most leading fixed words match the command.
struct Selected<'f, F> {
    form: &'f Form<F>,
    pattern: Pattern,
    /// Words with which other forms continue after the same leading words.
    beside: Vec<&'static str>,
}

fn select<'f, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    words: &Words<'_>,
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
        return Err(no_form(words, deepest, &expected));
    }
    let next = words.rest().get(lead_of_best).copied();
    let beside = if lead_of_best == deepest { expected } else { Vec::new() };
    let at = best.iter().position(|(_, pattern)| pattern.fits(next));
    if at.is_none() && best.len() > 1 {
        let mut expected = Vec::new();
        best.iter().for_each(|(_, pattern)| add(&mut expected, pattern.next_words()));
        add(&mut expected, beside);
        return Err(no_form(words, lead_of_best, &expected));
    }
    let (form, pattern) = best.swap_remove(at.unwrap_or(0));
    Ok(Selected { form, pattern, beside })
}

/// Appends those of `words` that `to` does not contain.
fn add(to: &mut Vec<&'static str>, words: Vec<&'static str>) {
    for word in words {
        if !to.contains(&word) {
            to.push(word);
        }
    }
}

/// Returns the error for a command that matches no form, because of word number `at` or because it
/// ends there.
fn no_form(words: &Words<'_>, at: usize, expected: &[&'static str]) -> CommandError {
    match words.rest().get(at) {
        Some(found) => CommandError::unknown(kind_of(found), found, expected.iter().copied()),
        None => {
            let mut at_end = *words;
            while at_end.take().is_some() {}
            at_end.missing(&either(expected))
        }
    }
}
