"""Procedure: workflows of many steps, read from their packages, understood, and taken through agents.

Everything here that *analyses* is a pure function from text and settings to a value: it opens no ledger, starts no
agent, and gives the same answer for the same input. That is what makes a run replayable, and what
`interlock analyze` shows.

The sixteen components of the specification, and where each stands:

    Validation Type Detector          entry.validation_type_detector
    Pre-flight Validation Subagent    entry.preflight_validation
    Cross-Reference Validator         entry.cross_reference_validator
    Workflow Entry Wrapper            entry.workflow_entry_wrapper
    Menu Participation Engine         menus.menu_participation_engine
    Context Pre-Loader                entry.context_pre_loader
    Automation Controller             engine.automation_controller
    Confidence Calculator             engine.confidence_calculator
    Tier Suggester                    entry.tier_suggester
    Party Mode Driver                 party.party_mode_driver
    Loop-Back Handler                 engine.loop_back_handler
    Subagent Dispatcher               agents.subagent_dispatcher
    Memory Bridge                     memory.memory_bridge
    Parallel BMB Validation           reviews.parallel_bmb_validation
    Sprint Status Watcher             state.sprint_status_watcher
    Post-Workflow Curator             memory.post_workflow_curator

The controller carries out what `engine.reducer` decides; extensions are plug-ins with the hooks of `engine.context`.
Whatever asks several agents about one thing (reviewers, validators, voices) does so through `panel`, behind the
synchronization barrier of epic 6 (`barrier`); what they answer is read by `answers`.
"""
