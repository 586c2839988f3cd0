/** Who asks, as Kubernetes or the issuer of the token names them. */
export type User = {
  readonly name: string;
  readonly uid?: string | undefined;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
  /** The owner of the local token, who may do everything. */
  readonly isLocal?: true;
};

/** Undefined: nobody whom this installation knows has the token. Rejects with FaultError unavailable where that cannot be found out now. */
export type Authenticate = (token: string, signal: AbortSignal) => Promise<User | undefined>;
