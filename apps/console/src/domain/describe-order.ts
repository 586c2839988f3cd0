import type { ReservationExplanation } from "../adapters/messages.ts";

type Ahead = ReservationExplanation["requestsAhead"][number];
type Compared = NonNullable<Ahead["compared"]>;

/** Describes why a request is ahead of another request. */
export function describeRule({ rule, compared, comparedWith }: Ahead): string {
  switch (rule) {
    case "PRIORITY":
      return "its priority is higher";
    case "AGE":
      return "it is older";
    case "WEIGHT":
      return "the queue of this request has weight 0 and would borrow";
  }
  if (compared === undefined || comparedWith === undefined) return rule;
  if (rule === "QUOTA")
    return `${compared.queue} ${describeLevel(compared)}, ${comparedWith.queue} ${describeLevel(comparedWith)}`;
  return rule === "SHARE" ? `${describeShare(compared)}, ${describeShare(comparedWith)}` : rule;
}

function describeLevel({ level }: Compared): string {
  if (level === 0) return "owns enough";
  return `borrows from ${level} ${level === 1 ? "level" : "levels"} above`;
}

function describeShare({ queue, share, pastShareMillionths }: Compared): string {
  if (share.endsWith("/0")) return `${queue} has an infinite share`;
  const past = pastShareMillionths === 0 ? "" : `, ${pastShareMillionths / 1_000_000} of it by past use`;
  return `${queue} has the share ${share.replace(/\/1$/, "")}${past}`;
}
