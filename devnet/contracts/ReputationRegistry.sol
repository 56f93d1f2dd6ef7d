// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

interface IIdentityRegistry {
    function isAuthorizedOrOwner(address spender, uint256 agentId) external view returns (bool);
}

/**
 * The interface of the ERC-8004 reputation registry, for a local chain.
 *
 * Feedback of one client for one agent is numbered from 1. Owners and operators of an agent cannot rate it.
 */
contract ReputationRegistry {
    struct Feedback {
        int128 value;
        uint8 valueDecimals;
        bool isRevoked;
        string tag1;
        string tag2;
    }

    event NewFeedback(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        int128 value,
        uint8 valueDecimals,
        string indexed indexedTag1,
        string tag1,
        string tag2,
        string endpoint,
        string feedbackURI,
        bytes32 feedbackHash
    );
    event FeedbackRevoked(
        uint256 indexed agentId, address indexed clientAddress, uint64 indexed feedbackIndex
    );

    uint8 private constant DECIMALS_MAX = 18;
    int128 private constant VALUE_MAX = 1e38;

    IIdentityRegistry private immutable _identities;
    mapping(uint256 agentId => address[]) private _clients;
    mapping(uint256 agentId => mapping(address client => Feedback[])) private _feedback;

    constructor(address identityRegistry) {
        _identities = IIdentityRegistry(identityRegistry);
    }

    function getIdentityRegistry() external view returns (address) {
        return address(_identities);
    }

    function getVersion() external pure returns (string memory) {
        return "2.0.0";
    }

    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string calldata tag1,
        string calldata tag2,
        string calldata endpoint,
        string calldata feedbackURI,
        bytes32 feedbackHash
    ) external {
        require(valueDecimals <= DECIMALS_MAX, "too many decimals");
        require(value >= -VALUE_MAX && value <= VALUE_MAX, "value too large");
        require(!_identities.isAuthorizedOrOwner(msg.sender, agentId), "Self-feedback not allowed");
        Feedback[] storage list = _feedback[agentId][msg.sender];
        if (list.length == 0) _clients[agentId].push(msg.sender);
        list.push(Feedback(value, valueDecimals, false, tag1, tag2));
        emit NewFeedback(
            agentId,
            msg.sender,
            uint64(list.length),
            value,
            valueDecimals,
            tag1,
            tag1,
            tag2,
            endpoint,
            feedbackURI,
            feedbackHash
        );
    }

    function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external {
        Feedback storage feedback = _at(agentId, msg.sender, feedbackIndex);
        require(!feedback.isRevoked, "Already revoked");
        feedback.isRevoked = true;
        emit FeedbackRevoked(agentId, msg.sender, feedbackIndex);
    }

    function getClients(uint256 agentId) external view returns (address[] memory) {
        return _clients[agentId];
    }

    function getLastIndex(uint256 agentId, address clientAddress) external view returns (uint64) {
        return uint64(_feedback[agentId][clientAddress].length);
    }

    function readFeedback(uint256 agentId, address clientAddress, uint64 feedbackIndex)
        external
        view
        returns (int128 value, uint8 valueDecimals, string memory tag1, string memory tag2, bool isRevoked)
    {
        Feedback storage feedback = _at(agentId, clientAddress, feedbackIndex);
        return (feedback.value, feedback.valueDecimals, feedback.tag1, feedback.tag2, feedback.isRevoked);
    }

    /// Returns the truncated average, with the most frequent number of decimals. If two are equally frequent, uses the smaller.
    function getSummary(uint256 agentId, address[] calldata clientAddresses, string calldata tag1, string calldata tag2)
        external
        view
        returns (uint64 count, int128 summaryValue, uint8 summaryValueDecimals)
    {
        require(clientAddresses.length > 0, "clientAddresses required");
        int256 sum = 0;
        uint64[] memory uses = new uint64[](DECIMALS_MAX + 1);
        for (uint256 i = 0; i < clientAddresses.length; i++) {
            Feedback[] storage list = _feedback[agentId][clientAddresses[i]];
            for (uint256 j = 0; j < list.length; j++) {
                Feedback storage feedback = list[j];
                if (!_matches(feedback, tag1, tag2, false)) continue;
                sum += int256(feedback.value) * int256(10 ** (DECIMALS_MAX - feedback.valueDecimals));
                uses[feedback.valueDecimals]++;
                count++;
            }
        }
        if (count == 0) return (0, 0, 0);
        for (uint8 decimals = 1; decimals <= DECIMALS_MAX; decimals++) {
            if (uses[decimals] > uses[summaryValueDecimals]) summaryValueDecimals = decimals;
        }
        int256 average = sum / int256(uint256(count));
        summaryValue = int128(average / int256(10 ** (DECIMALS_MAX - summaryValueDecimals)));
    }

    /// Returns all feedback of the named clients. Without names, returns the feedback of all clients.
    function readAllFeedback(
        uint256 agentId,
        address[] calldata clientAddresses,
        string calldata tag1,
        string calldata tag2,
        bool includeRevoked
    )
        external
        view
        returns (
            address[] memory clients,
            uint64[] memory feedbackIndexes,
            int128[] memory values,
            uint8[] memory valueDecimals,
            string[] memory tag1s,
            string[] memory tag2s,
            bool[] memory revokedStatuses
        )
    {
        address[] memory from = clientAddresses;
        if (from.length == 0) from = _clients[agentId];
        uint256 total = _count(agentId, from, tag1, tag2, includeRevoked);
        clients = new address[](total);
        feedbackIndexes = new uint64[](total);
        values = new int128[](total);
        valueDecimals = new uint8[](total);
        tag1s = new string[](total);
        tag2s = new string[](total);
        revokedStatuses = new bool[](total);
        uint256 row = 0;
        for (uint256 i = 0; i < from.length; i++) {
            Feedback[] storage list = _feedback[agentId][from[i]];
            for (uint256 j = 0; j < list.length; j++) {
                Feedback storage feedback = list[j];
                if (!_matches(feedback, tag1, tag2, includeRevoked)) continue;
                clients[row] = from[i];
                feedbackIndexes[row] = uint64(j + 1);
                values[row] = feedback.value;
                valueDecimals[row] = feedback.valueDecimals;
                tag1s[row] = feedback.tag1;
                tag2s[row] = feedback.tag2;
                revokedStatuses[row] = feedback.isRevoked;
                row++;
            }
        }
    }

    function _count(
        uint256 agentId,
        address[] memory from,
        string calldata tag1,
        string calldata tag2,
        bool includeRevoked
    ) private view returns (uint256 total) {
        for (uint256 i = 0; i < from.length; i++) {
            Feedback[] storage list = _feedback[agentId][from[i]];
            for (uint256 j = 0; j < list.length; j++) {
                if (_matches(list[j], tag1, tag2, includeRevoked)) total++;
            }
        }
    }

    function _at(uint256 agentId, address client, uint64 feedbackIndex) private view returns (Feedback storage) {
        Feedback[] storage list = _feedback[agentId][client];
        require(feedbackIndex > 0 && feedbackIndex <= list.length, "index out of bounds");
        return list[feedbackIndex - 1];
    }

    /// An empty tag matches every tag.
    function _matches(Feedback storage feedback, string calldata tag1, string calldata tag2, bool includeRevoked)
        private
        view
        returns (bool)
    {
        if (feedback.isRevoked && !includeRevoked) return false;
        if (bytes(tag1).length > 0 && keccak256(bytes(tag1)) != keccak256(bytes(feedback.tag1))) return false;
        return bytes(tag2).length == 0 || keccak256(bytes(tag2)) == keccak256(bytes(feedback.tag2));
    }
}
