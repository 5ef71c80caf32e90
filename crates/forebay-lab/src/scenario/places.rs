//! Times and file systems that a scenario's text names, checked.

use super::check::{Checked, Checker, span_of};
use forebay_base::Span;

impl Checker<'_> {
    pub(super) fn file_system_names(&self) -> Vec<String> {
        let all = self.machine.storage.file_systems.iter();
        all.map(|it| it.name.clone()).collect()
    }

    pub(super) fn file_system(&self, start: usize, given: Option<&String>) -> Checked<String> {
        let all = &self.machine.storage.file_systems;
        let Some(name) = given else {
            return Ok(all[0].name.clone());
        };
        if all.iter().any(|it| it.name == *name) {
            return Ok(name.clone());
        }
        let known = self.file_system_names().join(", ");
        let problem = format!("the machine has no file system '{name}'; it has: {known}");
        Err(self.source.wrong_field(start, "file_system", problem))
    }

    pub(super) fn time(&self, start: usize, field: &str, seconds: f64) -> Checked<Span> {
        if (0.0..=self.length_s).contains(&seconds) {
            return Ok(span_of(seconds));
        }
        let problem = format!(
            "{field} is {seconds}; 0 to the length of {} s is allowed",
            self.length_s
        );
        Err(self.source.wrong_field(start, field, problem))
    }
}
