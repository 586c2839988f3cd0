import { z } from "zod";

/** The block of a provider of kind `local`. The token is read from its file at start and never stands here. */
export const localSettings = z.strictObject({
  kind: z.literal("local"),
  /** The address of the small cloud, which it prints at its start. */
  url: z.url({ protocol: /^https?$/ }),
  tokenFile: z.string().min(1),
  /** Machines are kept apart by it: one value a scaler. */
  owner: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "has to be lower case letters, digits and dashes, 63 at most")
    .default("muster"),
});

export type LocalSettings = z.infer<typeof localSettings>;
