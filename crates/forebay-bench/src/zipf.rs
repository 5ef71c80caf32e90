//! Skewed choice of pages: rank `r` is drawn in proportion to `1 / r^skew`. The ranks are scattered
//! over the pages, so that neighbours in the file do not have similar heat.

use forebay_base::Prng;

/// A zipf distribution over pages. A draw takes constant time by the alias method (Walker 1977):
/// every column yields its own page with some chance, and its alias otherwise.
pub(crate) struct Zipf {
    columns: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Column {
    /// The chance, in units of 2^-32, that the column yields its own page.
    keep: u32,
    own_page: u32,
    alias_page: u32,
}

impl Zipf {
    /// The distribution with `skew` over `pages` pages, its hot pages chosen by `seed`.
    ///
    /// # Panics
    /// If there are no pages, or more than 2^32.
    pub(crate) fn new(pages: u64, skew: f64, seed: u64) -> Zipf {
        let page_of_rank = permutation(pages, seed);
        let total = mass(pages, skew);
        let mut shares: Vec<f64> = (1..=pages)
            .map(|rank| (rank as f64).powf(-skew) / total * pages as f64)
            .collect();
        let mut columns: Vec<Column> = page_of_rank
            .iter()
            .map(|&page| Column {
                keep: u32::MAX,
                own_page: page,
                alias_page: page,
            })
            .collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|&rank| shares[rank] < 1.0);
        while let (Some(taker), Some(&giver)) = (poor.pop(), rich.last()) {
            columns[taker].keep = (shares[taker] * f64::from(u32::MAX)) as u32;
            columns[taker].alias_page = page_of_rank[giver];
            shares[giver] -= 1.0 - shares[taker];
            if shares[giver] < 1.0 {
                rich.pop();
                poor.push(giver);
            }
        }
        Zipf { columns }
    }

    /// One page.
    pub(crate) fn draw(&self, prng: &mut Prng) -> u64 {
        let bits = prng.next_u64();
        let index = (u128::from(bits >> 32) * self.columns.len() as u128) >> 32;
        let column = self.columns[index as usize];
        let page = if bits as u32 <= column.keep {
            column.own_page
        } else {
            column.alias_page
        };
        u64::from(page)
    }
}

/// The share of the draws that goes to the hottest `cached_pages` of `pages`. No cache of that size
/// can exceed it if the draws are independent.
pub(crate) fn best_hit_ratio(pages: u64, skew: f64, cached_pages: u64) -> f64 {
    mass(cached_pages.min(pages), skew) / mass(pages, skew)
}

/// The numbers from 0 to `count` - 1, each once, in an order that `seed` chooses.
///
/// # Panics
/// If `count` is more than 2^32.
pub(crate) fn permutation(count: u64, seed: u64) -> Vec<u32> {
    let count = u32::try_from(count).expect("a bench has at most 2^32 pages (16 TiB)");
    let mut prng = Prng::from_seed(seed).child("permutation");
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, prng.below(last as u64 + 1) as usize);
    }
    order
}

fn mass(ranks: u64, skew: f64) -> f64 {
    (1..=ranks).map(|rank| (rank as f64).powf(-skew)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_shares() {
        let zipf = Zipf::new(1_000, 0.99, 5);
        let hottest = permutation(1_000, 5);
        let mut prng = Prng::from_seed(1);
        let mut counts = vec![0_u32; 1_000];
        let draws = 2_000_000;
        for _ in 0..draws {
            counts[zipf.draw(&mut prng) as usize] += 1;
        }
        let total = mass(1_000, 0.99);
        for rank in [1_usize, 2, 10, 100, 900] {
            let expected = f64::from(draws) * (rank as f64).powf(-0.99) / total;
            let drawn = f64::from(counts[hottest[rank - 1] as usize]);
            assert!(
                (drawn / expected - 1.0).abs() < 0.15,
                "rank {rank}: {drawn} of {expected}"
            );
        }
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut order = permutation(10_000, 3);
        assert_ne!(order[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(at, &n)| at == n as usize));
    }

    #[test]
    fn the_bound_of_the_issue_is_reproduced() {
        // 2 GiB of data over 512 MiB: "89.1 % with the hottest pinned".
        let bound = best_hit_ratio(524_288, 0.99, 131_072);
        assert!((bound - 0.891).abs() < 0.002, "{bound}");
        assert!((best_hit_ratio(10, 0.99, 20) - 1.0).abs() < 1e-12);
    }
}
