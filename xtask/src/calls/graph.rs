//! The calls between the files of a crate: circles, what would open them, and the order.

use super::definitions::Definitions;
use super::walk::Calls;
use std::collections::{BTreeMap, BTreeSet};

/// A call: the caller and the callee, as indices of functions.
pub(crate) type Call = (usize, usize);

/// The files of one crate and the calls between them.
pub(crate) struct Graph {
    /// The files, as indices into the files of the definitions.
    pub(crate) files: Vec<usize>,
    /// The calls from a file to another one of the crate.
    pub(crate) edges: BTreeMap<(usize, usize), Vec<Call>>,
}

impl Graph {
    /// The calls between the files of `krate`.
    pub(crate) fn of(definitions: &Definitions, calls: &[Calls], krate: &str) -> Graph {
        let own = |file: &usize| definitions.files[*file].krate == krate;
        let files = (0..definitions.files.len()).filter(own).collect();
        let mut edges: BTreeMap<(usize, usize), Vec<Call>> = BTreeMap::new();
        for (caller, calls) in calls.iter().enumerate() {
            for &callee in &calls.known {
                let from = definitions.functions[caller].file;
                let to = definitions.functions[callee].file;
                if from != to && own(&from) && own(&to) {
                    edges.entry((from, to)).or_default().push((caller, callee));
                }
            }
        }
        Graph { files, edges }
    }

    /// The files that `file` calls.
    pub(crate) fn called(&self, file: usize) -> impl Iterator<Item = usize> {
        let edges = self.edges.range((file, 0)..=(file, usize::MAX));
        edges.map(|((_, to), _)| *to)
    }

    /// Every group of files that reach each other, and every other file as a group of its own. A
    /// group comes after the groups that it calls.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let mut search = Search {
            graph: self,
            seen: BTreeMap::new(),
            stack: Vec::new(),
            groups: Vec::new(),
        };
        for &file in &self.files {
            if !search.seen.contains_key(&file) {
                search.visit(file);
            }
        }
        search.groups
    }

    /// The groups of more than one file.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let groups = self.groups().into_iter();
        groups.filter(|group| group.len() > 1).collect()
    }

    /// The groups by layer: the groups of the first layer call no others, and each layer calls only
    /// layers before it.
    pub(crate) fn layers(&self) -> Vec<Vec<Vec<usize>>> {
        let mut layers: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut layer_of: BTreeMap<usize, usize> = BTreeMap::new();
        for group in self.groups() {
            let called = group.iter().flat_map(|&file| self.called(file));
            let below = called.filter(|to| !group.contains(to));
            let layer = below.map(|to| layer_of[&to] + 1).max().unwrap_or(0);
            layer_of.extend(group.iter().map(|&file| (file, layer)));
            if layers.len() <= layer {
                layers.push(Vec::new());
            }
            layers[layer].push(group);
        }
        layers
    }

    /// An order of the files of `circle`, callers first, with few calls that lead back.
    pub(crate) fn order(&self, circle: &[usize]) -> Vec<usize> {
        let mut order = circle.to_vec();
        order.sort_by_key(|&file| {
            let ways = |(&(from, to), calls): (&(usize, usize), &Vec<Call>)| {
                let inside = circle.contains(&from) && circle.contains(&to);
                let out = i64::from(inside && from == file) - i64::from(inside && to == file);
                -out * calls.len() as i64
            };
            self.edges.iter().map(ways).sum::<i64>()
        });
        // Each file moves to its best position, until no move is an improvement.
        loop {
            let before = self.back_calls(&order);
            for &file in circle {
                let mut without = order.clone();
                without.retain(|&other| other != file);
                let places = (0..=without.len()).map(|place| {
                    let mut tried = without.clone();
                    tried.insert(place, file);
                    tried
                });
                let best = places.min_by_key(|tried| self.back_calls(tried));
                if let Some(best) = best.filter(|b| self.back_calls(b) < self.back_calls(&order)) {
                    order = best;
                }
            }
            if self.back_calls(&order) == before {
                return order;
            }
        }
    }

    fn back_calls(&self, order: &[usize]) -> usize {
        self.back(order).map(|(_, calls)| calls.len()).sum()
    }

    /// The edges that lead back in `order`.
    pub(crate) fn back<'a>(
        &'a self,
        order: &[usize],
    ) -> impl Iterator<Item = ((usize, usize), &'a [Call])> {
        let places: BTreeMap<usize, usize> = order
            .iter()
            .enumerate()
            .map(|(place, &file)| (file, place))
            .collect();
        self.edges.iter().filter_map(move |(&(from, to), calls)| {
            let leads_back = places.get(&from)? > places.get(&to)?;
            leads_back.then_some(((from, to), calls.as_slice()))
        })
    }
}

/// Tarjan's search for strongly connected components.
struct Search<'a> {
    graph: &'a Graph,
    /// When a file was first visited, and the earliest open file that it reaches.
    seen: BTreeMap<usize, (usize, usize)>,
    stack: Vec<usize>,
    groups: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) -> usize {
        let met = self.seen.len();
        self.seen.insert(file, (met, met));
        self.stack.push(file);
        let mut lowest = met;
        for to in self.graph.called(file).collect::<Vec<_>>() {
            if !self.seen.contains_key(&to) {
                lowest = lowest.min(self.visit(to));
            } else if self.stack.contains(&to) {
                lowest = lowest.min(self.seen[&to].0);
            }
        }
        self.seen.insert(file, (met, lowest));
        if lowest == met {
            let start = self.stack.iter().position(|&other| other == file);
            let mut group = self.stack.split_off(start.unwrap_or(0));
            group.sort_unstable();
            self.groups.push(group);
        }
        lowest
    }
}

/// The files that `start` reaches by calls of functions that `follows` accepts, itself included.
pub(crate) fn journey(
    calls: &[Calls],
    start: usize,
    mut follows: impl FnMut(usize) -> bool,
) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(function) = open.pop() {
        for &callee in &calls[function].known {
            if follows(callee) && reached.insert(callee) {
                open.push(callee);
            }
        }
    }
    reached
}
