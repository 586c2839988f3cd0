/// <reference lib="dom" />
import { indexSections, type Section } from "../search.ts";

type Find = ReturnType<typeof indexSections>;
type Found = ReturnType<Find>[number];

/** Set by search-index.js. */
declare global {
  var musterSections: readonly Section[] | undefined;
}

const CHARS_BEFORE_MATCH = 60;
const CHARS_OF_EXCERPT = 180;
const root = document.documentElement.dataset["root"] ?? "";

/** Connects the search dialog. The index loads when the reader opens the dialog first. */
export function setUpSearch(): void {
  const dialog = document.getElementById("search") as HTMLDialogElement;
  const button = document.getElementById("open-search") as HTMLButtonElement;
  const input = dialog.querySelector("input") as HTMLInputElement;
  let find: Promise<Find> | undefined;
  const open = (): void => {
    find ??= loadIndex();
    if (!dialog.open) dialog.showModal();
    input.select();
  };
  button.hidden = false;
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (!isShortcut(event)) return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", () => {
    void find?.then((search) => {
      showResults(input.value, search(input.value));
    }, showFailure);
  });
  dialog.addEventListener("keydown", moveFocus);
  dialog.addEventListener("click", ({ target }) => {
    // The dialog itself is the target of clicks beside it; a link may lead to this page.
    if (target === dialog || (target instanceof Element && target.closest("a") !== null)) dialog.close();
  });
}

function isShortcut(event: KeyboardEvent): boolean {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) return true;
  const isTyping = event.target instanceof HTMLInputElement;
  return event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
}

function loadIndex(): Promise<Find> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}search-index.js`;
    script.addEventListener("load", () => {
      resolve(indexSections(globalThis.musterSections ?? []));
    });
    script.addEventListener("error", () => {
      reject(new Error("search-index.js is missing"));
    });
    document.head.append(script);
  });
}

function showResults(query: string, results: readonly Found[]): void {
  element("search-results").replaceChildren(...results.map(buildResult));
  element("search-state").textContent = query.trim() !== "" && results.length === 0 ? "No page has these words." : "";
}

function showFailure(): void {
  element("search-state").textContent = "The search index does not load.";
}

function buildResult({ title, heading, url, text, terms }: Found): HTMLElement {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = root + url;
  const name = document.createElement("strong");
  name.textContent = heading === "" ? title : `${title} › ${heading}`;
  const excerpt = document.createElement("span");
  excerpt.append(...markTerms(buildExcerpt(text, terms), terms));
  link.append(name, excerpt);
  item.append(link);
  return item;
}

/** Terms consist of letters and digits. */
const patternOf = (terms: readonly string[]): RegExp => new RegExp(`(${terms.join("|")})`, "giu");

function buildExcerpt(text: string, terms: readonly string[]): string {
  const start = Math.max(0, text.search(patternOf(terms)) - CHARS_BEFORE_MATCH);
  const end = start + CHARS_OF_EXCERPT;
  return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
}

/** Splits by a group, so that the matches have odd indexes. */
function markTerms(text: string, terms: readonly string[]): readonly (string | HTMLElement)[] {
  return text.split(patternOf(terms)).map((part, index) => {
    if (index % 2 === 0) return part;
    const mark = document.createElement("mark");
    mark.textContent = part;
    return mark;
  });
}

/** The arrow keys move between the input and the results. */
function moveFocus(event: KeyboardEvent): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const stops = [...element("search").querySelectorAll<HTMLElement>("input, a")];
  const at = stops.findIndex((stop) => stop === document.activeElement);
  stops[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  event.preventDefault();
}

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`#${id} is missing`);
  return found;
}
