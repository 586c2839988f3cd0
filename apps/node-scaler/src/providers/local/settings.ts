import { z } from "zod";

/** The block of a provider of kind `local`. It names the file of the token, which is read at start, and never contains the token. */
export const localSettings = z.strictObject({
  kind: z.literal("local"),
  /** The address of the small cloud, which it prints at its start. */
  url: z.url({ protocol: /^https?$/ }),
  tokenFile: z.string().min(1),
  /** The owner of the machines at the cloud. Each scaler needs its own value. */
  owner: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "has to be lower case letters, digits and dashes, 63 at most")
    .default("muster"),
});

export type LocalSettings = z.infer<typeof localSettings>;
