export type Colour = "none" | "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

const CODE = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** Colours the text for terminals; returns it unchanged if colours are off. */
export function paintText(text: string, colour: Colour, colours: boolean): string {
  return !colours || colour === "none" || text === "" ? text : `\u001b[${CODE[colour]}m${text}\u001b[0m`;
}

const WORDS: readonly (readonly [colour: Colour, words: string])[] = [
  ["green", "DONE SUCCEEDED COMPLETED READY ACTIVE ok"],
  ["red", "ERROR INTERNAL_ERROR FAILED failed STUCK"],
  ["yellow", "CANCELLED RESTARTING PREEMPTED SUSPENDED NOT_READY UNKNOWN waiting warning DELAYED TROUBLED"],
  ["cyan", "ORDERED PROVISIONING DECOMMISSIONING ACCEPT PROVISION RUN STARTING RUNNING CREATED"],
];

const COLOURS = new Map(WORDS.flatMap(([colour, words]) => words.split(" ").map((word) => [word, colour])));

/** Returns the colour of a phase of work, or of a state of a component. */
export function getColour(word: string): Colour {
  return COLOURS.get(word) ?? "none";
}
