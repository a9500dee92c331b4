//! Forms of commands, and the selection of the form that words have.

use crate::pattern::{Pattern, either};
use crate::{Args, CommandError, Words};

/// A form of a command: its grammar, its description, and its function.
#[derive(Clone, Copy, Debug)]
pub struct Form<F> {
    /// Elements, as in a manual page; see the crate's documentation.
    pub grammar: &'static str,
    /// Description: a sentence without a subject, such as `Adds a port.`
    pub about: &'static str,
    /// Function that carries out the command.
    pub run: F,
}

/// Consumes the words of one form and returns it with its values. Further words remain.
///
/// # Errors
/// An unknown, invalid or missing word.
pub fn parse<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    words: &mut Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, .. } = select(forms, words)?;
    let mut args = Args::new(form.grammar);
    pattern.take(words, &mut args)?;
    Ok((form, args))
}

/// As [`parse`]; the words must be those of one form.
///
/// # Errors
/// An unknown, invalid, missing or extra word.
pub fn parse_all<'f, 'w, F>(
    forms: impl IntoIterator<Item = &'f Form<F>>,
    mut words: Words<'w>,
) -> Result<(&'f Form<F>, Args<'w>), CommandError> {
    let Selected { form, pattern, beside } = select(forms, &words)?;
    let (mut args, before) = (Args::new(form.grammar), words.rest().len());
    pattern.take(&mut words, &mut args)?;
    if let Some(extra) = words.peek() {
        let is_after_lead = before - words.rest().len() == pattern.lead();
        let beside = if is_after_lead { beside } else { Vec::new() };
        let possible = [pattern.option_words(), beside].concat();
        return Err(match possible.is_empty() {
            true => CommandError::too_much(extra),
            false => CommandError::unknown("word", extra, possible.into_iter()),
        });
    }
    Ok((form, args))
}

/// The form with the most leading words that match.
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
    let mut best: Option<(usize, &Form<F>, Pattern)> = None;
    let (mut deepest, mut expected) = (0, Vec::new());
    for form in forms {
        let pattern = Pattern::of(form.grammar);
        let (lead, matched) = (pattern.lead(), pattern.lead_matched(words.rest()));
        if matched == lead {
            if best.as_ref().is_none_or(|(most, ..)| lead > *most) {
                best = Some((lead, form, pattern));
            }
            continue;
        }
        if matched > deepest {
            (deepest, expected) = (matched, Vec::new());
        }
        if matched == deepest {
            expected.extend(
                pattern.lead_words(matched).into_iter().filter(|word| !expected.contains(word)).collect::<Vec<_>>(),
            );
        }
    }
    match best {
        Some((lead, form, pattern)) if lead >= deepest => {
            Ok(Selected { form, pattern, beside: if lead == deepest { expected } else { Vec::new() } })
        }
        _ => Err(match words.rest().get(deepest) {
            Some(found) => CommandError::unknown("word", found, expected.into_iter()),
            None => {
                let mut at_end = *words;
                while at_end.take().is_some() {}
                at_end.missing(&either(&expected))
            }
        }),
    }
}
