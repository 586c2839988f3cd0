import MiniSearch, { type SearchResult } from "minisearch";

/** A part of a page under one heading. The first section of a page has no heading. */
export type Section = {
  readonly title: string;
  readonly heading: string;
  readonly url: string;
  readonly text: string;
};

const MAX_RESULTS = 20;
const BOOST_OF_START = 2;
const BOOST_OF_DECISION = 0.4;

/** Indexes the sections. Returns a function that finds the sections with all words of a query, the best first. */
export function indexSections(sections: readonly Section[]): (query: string) => readonly (Section & SearchResult)[] {
  const index = new MiniSearch<Section>({
    idField: "url",
    fields: ["title", "heading", "text"],
    storeFields: ["title", "heading", "url", "text"],
    tokenize: (text) => text.split(/[^\p{L}\p{N}]+/u),
    searchOptions: {
      boost: { title: 6, heading: 4 },
      boostDocument: (url: string, _term, section) => computeBoost(url, section?.["heading"] === ""),
      combineWith: "AND",
      prefix: (term) => term.length > 2,
      fuzzy: (term) => (term.length > 5 ? 0.2 : false),
    },
  });
  index.addAll(sections);
  return (query) => index.search(query).slice(0, MAX_RESULTS) as (Section & SearchResult)[];
}

/** The start of a page comes before its sections, and what holds before the decision for it. */
function computeBoost(url: string, isStart: boolean): number {
  return (isStart ? BOOST_OF_START : 1) * (url.startsWith("docs/decisions/") ? BOOST_OF_DECISION : 1);
}
