export type Colour = "none" | "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

const CODE = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** The text in a colour for terminals; unchanged when colours are off. */
export function paint(text: string, colour: Colour, colours: boolean): string {
  return !colours || colour === "none" || text === "" ? text : `\u001b[${CODE[colour]}m${text}\u001b[0m`;
}

/** The colour of a phase of work, or of a state of a component. */
export function colourOf(word: string): Colour {
  switch (word) {
    case "DONE":
    case "SUCCEEDED":
    case "COMPLETED":
    case "READY":
    case "ACTIVE":
    case "ok":
      return "green";
    case "ERROR":
    case "INTERNAL_ERROR":
    case "FAILED":
    case "failed":
    case "STUCK":
      return "red";
    case "CANCELLED":
    case "RESTARTING":
    case "SUSPENDED":
    case "NOT_READY":
    case "UNKNOWN":
    case "waiting":
    case "warning":
    case "DELAYED":
    case "TROUBLED":
      return "yellow";
    case "ORDERED":
    case "PROVISIONING":
    case "DECOMMISSIONING":
    case "ACCEPT":
    case "PROVISION":
    case "RUN":
    case "STARTING":
    case "RUNNING":
    case "CREATED":
      return "cyan";
    default:
      return "none";
  }
}
