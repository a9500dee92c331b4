//! Values of expressions: numbers and symbolic constants.

use crate::script::Expr;

/// Returns the symbols in an expression such as `A|B`.
pub(crate) fn names(expr: &Expr) -> Box<dyn Iterator<Item = &str> + '_> {
    match expr {
        Expr::Word(word) => Box::new(std::iter::once(word.as_str())),
        Expr::Or(parts) => Box::new(parts.iter().flat_map(names)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the numeric value of an expression.
pub(crate) fn value(expr: &Expr) -> Result<i64, String> {
    Ok(match expr {
        Expr::Int(value) => *value,
        Expr::Or(parts) => parts.iter().try_fold(0, |sum, part| Ok::<i64, String>(sum | value(part)?))?,
        Expr::List(parts) if parts.len() == 1 => value(parts.first().unwrap_or(&Expr::Int(0)))?,
        Expr::Word(word) => match word.as_str() {
            "O_RDWR" => 2,
            "O_NONBLOCK" => 0o4000,
            "SOMAXCONN" => 4096,
            "TCP_ESTABLISHED" => 1,
            "IP_PMTUDISC_DONT" => 0,
            "IP_PMTUDISC_WANT" => 1,
            "IP_PMTUDISC_DO" => 2,
            other => return Err(format!("unknown constant '{other}'")),
        },
        other => return Err(format!("{other:?}: expected a number")),
    })
}
