//! Lists from the cache or the API server, which are read page by page.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::types;
use crate::error::Error;
use crate::json;

/// A query whose objects are read page by page. Each source has its own type, so that a plugin imports only the
/// functions that it uses.
pub trait Pages {
    /// The name of the objects in the error for an object that does not parse.
    #[doc(hidden)]
    const WHAT: &'static str;

    /// Requests the page that the query's token names.
    #[doc(hidden)]
    fn fetch(&self) -> Result<types::Page, Error>;

    /// Makes this the query for a later page.
    #[doc(hidden)]
    fn set_token(&mut self, token: String);
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The token of the next page, for its query. `None` on the last page.
    pub next_token: Option<String>,
}

pub(crate) fn page<Q: Pages, T: DeserializeOwned>(query: &Q) -> Result<Page<T>, Error> {
    let types::Page { items, next_token } = query.fetch()?;
    let items = items.iter().map(|text| json::read(Q::WHAT, text)).collect::<Result<_, _>>()?;
    Ok(Page { items, next_token })
}

/// The objects that a query finds. The pages are read during the iteration, which ends after the first error.
#[derive(Debug)]
pub struct Objects<Q, T> {
    /// `None` if the last page was fetched, or an error ended the list.
    next_page: Option<Q>,
    fetched: VecDeque<String>,
    object: PhantomData<fn() -> T>,
}

impl<Q: Pages, T> Objects<Q, T> {
    pub(crate) fn new(query: Q) -> Self {
        Self { next_page: Some(query), fetched: VecDeque::new(), object: PhantomData }
    }

    fn fetch(&mut self, mut query: Q) -> Result<(), Error> {
        let page = query.fetch()?;
        self.fetched.extend(page.items);
        self.next_page = page.next_token.map(|token| {
            query.set_token(token);
            query
        });
        Ok(())
    }
}

impl<Q: Pages, T: DeserializeOwned> Iterator for Objects<Q, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.fetched.pop_front() {
                let object = json::read(Q::WHAT, &text);
                if object.is_err() {
                    self.fetched.clear();
                    self.next_page = None;
                }
                return Some(object.map_err(Error::from));
            }
            let query = self.next_page.take()?;
            if let Err(error) = self.fetch(query) {
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiReason;

    /// Pages of two numbers. The token counts the pages. The third page fails.
    #[derive(Debug, Clone)]
    struct Numbers(u8);

    impl Pages for Numbers {
        const WHAT: &'static str = "a number";

        fn fetch(&self) -> Result<types::Page, Error> {
            let items = [2 * self.0, 2 * self.0 + 1].map(|number| number.to_string()).into();
            match self.0 {
                2 => Err(crate::error::tests::refused(ApiReason::Expired).into()),
                _ => Ok(types::Page { items, next_token: Some((self.0 + 1).to_string()) }),
            }
        }

        fn set_token(&mut self, token: String) {
            self.0 = token.parse().unwrap();
        }
    }

    #[test]
    fn a_list_continues_over_its_pages_and_ends_with_the_first_error() {
        let mut objects = Objects::<_, u8>::new(Numbers(0));
        let read: Vec<u8> = objects.by_ref().map_while(Result::ok).collect();
        assert_eq!(read, [0, 1, 2, 3]);
        assert!(objects.next().is_none());
    }

    #[test]
    fn a_page_has_the_token_of_the_next() {
        let expected = Page { items: vec![2_u8, 3], next_token: Some("2".into()) };
        assert_eq!(page(&Numbers(1)).unwrap(), expected);
    }

    #[test]
    fn a_list_ends_after_an_object_that_does_not_parse() {
        let fetched = ["1", "text", "2"].map(str::to_owned).into();
        let mut objects = Objects::<_, u8> { next_page: Some(Numbers(0)), fetched, object: PhantomData };
        assert_eq!(objects.next().map(Result::ok), Some(Some(1)));
        assert!(objects.next().is_some_and(|object| object.is_err()));
        assert!(objects.next().is_none());
    }
}
