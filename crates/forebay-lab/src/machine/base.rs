//! A machine whose text has only the differences from another one, its base.

use super::error::{MachineError, SourceLine, explained};
use super::form::MachineText;
use toml::Spanned;

/// `machine`, which `text` spells, with each key that it leaves out taken from its base, from the
/// base of that, and so on. `find` gives the text of a machine by its name.
///
/// What is taken from a base counts as if it were in the line that names the base.
pub(super) fn complete<'a>(
    mut machine: MachineText,
    text: &str,
    find: impl Fn(&str) -> Option<&'a str>,
) -> Result<MachineText, MachineError> {
    let Some(first) = machine.base.take() else {
        return Ok(machine);
    };
    let line = first.span();
    let refused = |problem: String| MachineError::Text {
        place: SourceLine::of_offset(text, line.start),
        problem,
    };
    let mut names = vec![machine.name.clone()];
    let mut next = Some(first.into_inner());
    while let Some(name) = next {
        let is_known = names.contains(&name);
        names.push(name.clone());
        if is_known {
            let circle = names.join(", ");
            return Err(refused(format!("a base leads back to itself: {circle}")));
        }
        let Some(found) = find(&name) else {
            return Err(refused(format!(
                "there is no machine '{name}' to be the base; `forebay-lab list` names them"
            )));
        };
        let mut base: MachineText = toml::from_str(found)
            .map_err(|error| refused(format!("base '{name}': {}", explained(error.message()))))?;
        next = base.base.take().map(Spanned::into_inner);
        machine.take_over(base, &line);
    }
    Ok(machine)
}
