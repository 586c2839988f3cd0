/** Names in Muster have at most 63 characters; longer words are shortened. */
const MAX_WORD = 64;
const WORD_HEAD = 40;
const WORD_TAIL = 20;

/** Shortens overlong words in the middle: `aaaa…aaaa`. A path keeps each part that is short enough. */
export function shortenWords(text: string): string {
  return text.replaceAll(/[^\s/:"'`]+/gu, (word) => {
    const letters = Array.from(word);
    if (letters.length <= MAX_WORD) return word;
    return `${letters.slice(0, WORD_HEAD).join("")}…${letters.slice(-WORD_TAIL).join("")}`;
  });
}
