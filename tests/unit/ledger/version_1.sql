-- The tables of version 1, as its last releases made them, with a row in each.

CREATE TABLE audit (
    number BIGINT NOT NULL,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (number)
);

CREATE TABLE backlogs (
    team TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (team, instance_type, resource)
);

CREATE TABLE book (
    id BIGINT NOT NULL,
    schema BIGINT NOT NULL,
    began BIGINT NOT NULL,
    written BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE claim_days (
    day TEXT NOT NULL,
    team TEXT NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    uid TEXT NOT NULL,
    claimant TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    taken_back BIGINT NOT NULL,
    PRIMARY KEY (day, team, namespace, job, uid, claimant, instance_type, resource)
) WITHOUT ROWID;

CREATE TABLE gaps (
    "begin" BIGINT NOT NULL,
    "end" BIGINT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY ("begin")
);

CREATE TABLE job_days (
    day TEXT NOT NULL,
    team TEXT NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    uid TEXT NOT NULL,
    priority_class TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    used BIGINT NOT NULL,
    borrowed BIGINT NOT NULL,
    PRIMARY KEY (day, team, namespace, job, uid, priority_class, instance_type, resource)
) WITHOUT ROWID;

CREATE TABLE loss_book (
    id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE open_take_backs (
    cession TEXT NOT NULL,
    target TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (cession, target)
);

CREATE TABLE pool_days (
    day TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    capacity BIGINT NOT NULL,
    unallocated BIGINT NOT NULL,
    unallocated_lent BIGINT NOT NULL,
    excess BIGINT NOT NULL,
    PRIMARY KEY (day, instance_type, resource)
) WITHOUT ROWID;

CREATE TABLE target_losses (
    cession_uid TEXT NOT NULL,
    target BIGINT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    cession TEXT NOT NULL,
    number BIGINT NOT NULL,
    released TEXT NOT NULL,
    team TEXT NOT NULL,
    job TEXT NOT NULL,
    uid TEXT NOT NULL,
    claimant TEXT NOT NULL,
    claimant_job TEXT NOT NULL,
    how TEXT NOT NULL,
    from_size BIGINT NOT NULL,
    to_size BIGINT NOT NULL,
    lost_steps BIGINT,
    lost BIGINT,
    PRIMARY KEY (cession_uid, target, instance_type, resource)
);

CREATE INDEX ix_target_losses_released ON target_losses (released);

CREATE TABLE team_days (
    day TEXT NOT NULL,
    team TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    resource TEXT NOT NULL,
    owned BIGINT NOT NULL,
    available BIGINT NOT NULL,
    used BIGINT NOT NULL,
    borrowed BIGINT NOT NULL,
    lent BIGINT NOT NULL,
    private BIGINT NOT NULL,
    PRIMARY KEY (day, team, instance_type, resource)
) WITHOUT ROWID;

INSERT INTO book VALUES (
    1, 1, 1795600000000000, 1795603600000000
);

INSERT INTO pool_days VALUES (
    '2026-11-25', 'p5', 'nvidia.com/gpu', 80, 8, 4, 1
);

INSERT INTO team_days VALUES (
    '2026-11-25', 'vision', 'p5', 'nvidia.com/gpu', 40, 40, 30, 0, 6, 2
);

INSERT INTO job_days VALUES (
    '2026-11-25', 'vision', 'vision', 'clip', 'job-1', 'training', 'p5', 'nvidia.com/gpu', 30, 0
);

INSERT INTO claim_days VALUES (
    '2026-11-25', 'research', 'research', 'gpt', 'job-2', 'vision', 'p5', 'nvidia.com/gpu', 5
);

INSERT INTO gaps VALUES (
    1795600000000000, 1795600060000000, 'the ledger did not run'
);

INSERT INTO backlogs VALUES (
    'vision', 'p5', 'nvidia.com/gpu', 7
);

INSERT INTO audit VALUES (
    1, '2026-11-25T10:00:00Z', 'ComputeAllocation', 'vision', '{}', '', 'first'
);

INSERT INTO loss_book VALUES (
    1, 1
);

INSERT INTO target_losses VALUES (
    'cession-1', 0, 'p5', 'nvidia.com/gpu', 'take-back', 1, '2026-11-25T10:00:00Z', 'research',
    'gpt', 'job-2', 'vision', 'clip', 'Stop', 8, 0, NULL, NULL
);

INSERT INTO open_take_backs VALUES (
    'take-back', 'gpt',
    '{"cession": "take-back", "target": "gpt", "uid": "job-2", "team": "research",
     "namespace": "research", "job": "gpt", "claimant": "vision", "taken": []}'
);
