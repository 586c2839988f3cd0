/** A command as a document has it. */
export type DocumentedCommand = {
  readonly line: number;
  /** Words of the command without comments and pipes, with quotes resolved. */
  readonly words: readonly string[];
  /** In a text, not in a block to copy: it may be incomplete. */
  readonly isMentioned: boolean;
};

const PROGRAMS = new Set(["docker", "helm", "kubectl", "muster", "node", "npm", "npx"]);
/** The end of a command before another one, a file or a comment. */
const ENDS = /^(?:&&|\|\||[|;&#]|>>?)$/;

/** The commands of a page in Markdown: those of its blocks, and those between backticks in its text. */
export function listCommands(page: string): readonly DocumentedCommand[] {
  const found: DocumentedCommand[] = [];
  let isBlock = false;
  for (const [index, text] of page.split("\n").entries()) {
    if (/^\s*```/.test(text)) isBlock = !isBlock;
    else if (isBlock) found.push(...toCommands(text, index + 1, false));
    else
      for (const [, code = ""] of text.matchAll(/`([^`]+)`/g))
        for (const variant of variantsOf(code)) found.push(...toCommands(variant, index + 1, true));
  }
  return found;
}

/** `end ID [--wait]` is about an option, `delete NAME [--force|--orphan]` and `main.ts one|two` about two. */
function variantsOf(code: string): readonly string[] {
  const text = code.replaceAll("\\|", "|").replaceAll(/[[\]](?!\.)/g, "");
  const [alternatives] = /\S+(?:\|\S+)+/.exec(text) ?? [];
  if (alternatives === undefined) return [text];
  return alternatives.split("|").map((each) => text.replace(alternatives, each));
}

function toCommands(text: string, line: number, isMentioned: boolean): readonly DocumentedCommand[] {
  const all: string[][] = [[]];
  for (const [word, quoted] of split(text)) {
    if (!quoted && word.startsWith("#")) break;
    if (!quoted && ENDS.test(word)) all.push([]);
    else all.at(-1)?.push(word);
  }
  return all
    .map((words) => words.slice(words.findIndex((word) => !/^[A-Z_]+=/.test(word))))
    .filter(([program = ""]) => PROGRAMS.has(program))
    .map((words) => ({ line, words, isMentioned }));
}

/** Splits words as a shell does; `<session>` stands for a name. */
function split(text: string): readonly (readonly [word: string, quoted: boolean])[] {
  const word = /'([^']*)'|"([^"]*)"|(&&|\|\||[|;]|>>?(?=\s))|((?:<\w+>|\$\([^)]*\)|[^\s'"|;])+)/g;
  return [...text.matchAll(word)].map(([, single, double, end, plain]) => {
    const quoted = single ?? double;
    return quoted === undefined ? [end ?? plain ?? "", false] : [quoted, true];
  });
}
